"""Closed choices out of what a model said: matched, or clamped to the default, and never silently."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ragtune.superprompt.agents.config import CERTAINTY, ChoiceField, ChooserConfig
from ragtune.superprompt.agents.contracts import share_of

_SHOWN_CHARS = 80

Reason = Literal["agent", "clamped", "missing", "uncertain", "llm_off"]


@dataclass(frozen=True)
class Choice:
    """The outcome of one field.

    Attributes:
        value: an allowed value, or the default.
        reason: ``agent``: the model said it; ``clamped``: what it said is not allowed; ``missing``: it said nothing;
            ``uncertain``: it said so with too little certainty; ``llm_off``: no model was asked.
        said: what the model said for the field, shortened; None if it said nothing.
    """

    value: str | None
    reason: Reason
    said: str | None = None

    def log(self) -> dict[str, Any]:
        """The outcome as JSON values."""
        return {"value": self.value, "reason": self.reason, "said": self.said}


@dataclass(frozen=True)
class Choices:
    """The outcomes of all fields.

    Attributes:
        fields: outcome by field name, for every field of the configuration.
        certainty: the certainty that the model stated, in [0, 1]; None if it stated none.
    """

    fields: Mapping[str, Choice]
    certainty: float | None = None

    def log(self) -> dict[str, Any]:
        """The outcome as JSON values."""
        return {CERTAINTY: self.certainty, **{name: choice.log() for name, choice in self.fields.items()}}


def decide(config: ChooserConfig, said: Mapping[str, Any], enums: Mapping[str, Sequence[str]] | None = None) -> Choices:
    """The choices that an answer makes; whatever it holds, every field gets an allowed value or its default."""
    certainty = share_of(said.get(CERTAINTY))
    sure = certainty is None or certainty >= config.min_confidence
    enums = enums or {}
    return Choices(
        {name: _choice(field, said.get(name), enums.get(name), sure) for name, field in config.fields.items()},
        certainty,
    )


def defaults(config: ChooserConfig, reason: Reason = "llm_off") -> Choices:
    """The default of every field, for input that no model was asked about."""
    return Choices({name: Choice(field.default, reason) for name, field in config.fields.items()})


def _choice(field: ChoiceField, said: Any, enum: Sequence[str] | None, sure: bool) -> Choice:
    if said is None:
        return Choice(field.default, "missing")
    matched = field.match(said, enum)
    if matched is None:
        return Choice(field.default, "clamped", _shown(said))
    return Choice(matched, "agent", _shown(said)) if sure else Choice(field.default, "uncertain", _shown(said))


def _shown(said: Any) -> str:
    text = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "..."
