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
    """One field's outcome.

    Attributes:
        value: an allowed value, or the default.
        reason: ``agent``: it was said; ``clamped``: what was said is not allowed; ``missing``: nothing was said;
            ``uncertain``: it was said with too little certainty; ``llm_off``: nobody was asked.
        said: what was said, shortened; None if nothing.
    """

    value: str | None
    reason: Reason
    said: str | None = None

    def log(self) -> dict[str, Any]:
        """As JSON values."""
        return {"value": self.value, "reason": self.reason, "said": self.said}


@dataclass(frozen=True)
class Choices:
    """All fields' outcomes.

    Attributes:
        fields: by name, every field of the configuration.
        certainty: as it was said, in [0, 1]; None if it was not.
    """

    fields: Mapping[str, Choice]
    certainty: float | None = None

    def log(self) -> dict[str, Any]:
        """As JSON values."""
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
    """What stands where nothing was said."""
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
