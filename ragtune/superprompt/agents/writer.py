"""The writer: Markdown in fixed sections, and scores of its sources."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, StringConstraints, WithJsonSchema, model_validator

from ragtune.core.request.context import CostMeter
from ragtune.core.tokens import count_tokens
from ragtune.superprompt.agents.agent import (
    SHARE,
    AgentConfig,
    BaseAgent,
    Contract,
    bounded,
    number_of,
    share_of,
    tidy,
)

_NONE = "- none"
_HEADING = re.compile(r"\s{0,3}(?:#{1,6}\s+)?\**([^*#:]+?)\**:?\**\s*#*\s*")


def _as_scores(value: Any) -> dict[int, float]:
    """What is a score in [0, 1] by the number of an item; the rest is left out."""
    given = value.items() if isinstance(value, dict) else ()
    known = [(number_of(key), share_of(score)) for key, score in given]
    return {number: score for number, score in known if number is not None and score is not None}


class Written(Contract):
    """The writer's answer: Markdown, and the items' scores by number."""

    s_ctx_md: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
    relevance: Annotated[
        dict[int, float],
        BeforeValidator(_as_scores),
        WithJsonSchema({"type": "object", "additionalProperties": dict(SHARE)}),
    ] = Field(default_factory=dict)


class WriterConfig(AgentConfig):
    """Writes Markdown from items."""

    sections: tuple[str, ...] = Field(min_length=1)
    max_text_tokens: int = Field(ge=1)

    @model_validator(mode="after")
    def _room_for_headings(self) -> Self:
        if self.max_text_tokens < (least := 16 * len(self.sections)):
            raise ValueError(f"max_text_tokens={self.max_text_tokens}: {len(self.sections)} sections need {least}")
        return self

    def choices(self) -> str:
        headings = "\n".join(f"## {section}" for section in self.sections)
        return f"{headings}\n(at most {self.max_text_tokens} tokens in all)"

    def answer(self, first: int | None) -> dict[str, Any]:
        text = "\n".join(f"## {section}\n- ..." for section in self.sections)
        return {"s_ctx_md": text, "relevance": {str(first or 1): 0.9}}


class Writer(BaseAgent[WriterConfig]):
    """Writes Markdown in fixed sections from items, in one call."""

    def fitting(self, parts: Mapping[str, str], items: Sequence[str]) -> int:
        """Return how many of the items, from the first, fit into one call."""
        groups = self.split(parts, list(enumerate(items, start=1)), max(1, len(items)))
        return len(groups[0]) if groups else 0

    def write(
        self, parts: Mapping[str, str], items: Sequence[str], meter: CostMeter
    ) -> tuple[str, Mapping[int, float]]:
        """Return the text and the items' scores by position from 0; items are fenced and numbered from 1."""
        messages = self.messages(parts, list(enumerate(items, start=1)))
        [said] = self._ask([messages], Written, meter)
        lines = into_sections(tidy(said["s_ctx_md"]), self.config.sections)
        relevance = said["relevance"]
        scores = {i: relevance[i + 1] for i in range(len(items)) if i + 1 in relevance}
        return sectioned(lines, self.config.max_text_tokens), scores


def into_sections(text: str, names: Sequence[str]) -> dict[str, list[str]]:
    """Return lines by section. A line that is only a section's name opens it; earlier lines belong to the first."""
    known = {name.casefold(): name for name in names}
    lines: dict[str, list[str]] = {name: [] for name in names}
    current = names[0]
    for line in text.split("\n"):
        match = _HEADING.fullmatch(line)
        opened = known.get(match[1].strip().casefold()) if match else None
        if opened is not None:
            current = opened
        elif line.strip():
            lines[current].append(line.rstrip())
    return lines


def sectioned(lines: Mapping[str, Sequence[str]], max_tokens: int) -> str:
    """Each section under ``## NAME`` (``- none`` if empty), the longest ones cut to ``max_tokens`` in all."""
    kept = {name: [(line, count_tokens(line)) for line in given] for name, given in lines.items()}
    room = max_tokens - sum(count_tokens(f"## {name}\n{_NONE}") for name in kept)
    sizes = {name: sum(size for _, size in given) for name, given in kept.items()}
    while sum(sizes.values()) > room:
        longest = max(sizes, key=lambda name: sizes[name])
        line, size = kept[longest].pop()
        sizes[longest] -= size
        if not any(kept.values()):
            rest = bounded(line, room)
            kept[longest] = [(rest, count_tokens(rest))] if rest else []
            break
    return "\n\n".join(f"## {name}\n" + ("\n".join(line for line, _ in given) or _NONE) for name, given in kept.items())
