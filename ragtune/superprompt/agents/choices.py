"""Closed choices from a model's answer: each is matched, or becomes the default with a reason."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ragtune.superprompt.agents.config import CERTAINTY, ChoiceField, ChooserConfig
from ragtune.superprompt.agents.contracts import share_of

_SHOWN_CHARS = 80

Reason = Literal["agent", "clamped", "missing", "uncertain", "llm_off"]


@dataclass(frozen=True)
class Choice:
    """The outcome of one field: an allowed value or the default, its reason, and the model's words for it."""

    value: str | None
    reason: Reason
    said: str | None = None


@dataclass(frozen=True)
class Choices:
    """The outcomes of all fields, and the certainty in [0, 1] that the model stated."""

    fields: Mapping[str, Choice]
    certainty: float | None = None

    def log(self) -> dict[str, Any]:
        """Return the outcome as JSON values."""
        return {CERTAINTY: self.certainty, **{name: asdict(choice) for name, choice in self.fields.items()}}


def decide(config: ChooserConfig, said: Mapping[str, Any], enums: Mapping[str, Sequence[str]] | None = None) -> Choices:
    """Return the choices of an answer; every field gets an allowed value or its default."""
    certainty = share_of(said.get(CERTAINTY))
    is_sure = certainty is None or certainty >= config.min_confidence
    enums = enums or {}
    return Choices(
        {name: _choice(field, said.get(name), enums.get(name), is_sure) for name, field in config.fields.items()},
        certainty,
    )


def defaults(config: ChooserConfig, reason: Reason = "llm_off") -> Choices:
    """Return the default of every field."""
    return Choices({name: Choice(field.default, reason) for name, field in config.fields.items()})


def _choice(field: ChoiceField, said: Any, enum: Sequence[str] | None, is_sure: bool) -> Choice:
    if said is None:
        return Choice(field.default, "missing")
    text = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
    shown = text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "..."
    matched = field.match(said, enum)
    if matched is None:
        return Choice(field.default, "clamped", shown)
    return Choice(matched, "agent", shown) if is_sure else Choice(field.default, "uncertain", shown)
