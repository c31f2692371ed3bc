"""The writer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ragtune.core.request.context import CostMeter
from ragtune.superprompt.agents.base import BaseAgent
from ragtune.superprompt.agents.config import WriterConfig
from ragtune.superprompt.agents.contracts import writer_contract
from ragtune.superprompt.agents.texts import into_sections, sectioned, tidy


@dataclass(frozen=True)
class Written:
    """The result of a writer: Markdown with all sections, whether lines were removed, scores by position from 0."""

    text: str
    is_shortened: bool
    scores: Mapping[int, float]


class Writer(BaseAgent[WriterConfig]):
    """Writes Markdown in fixed sections from items, in one call."""

    accepts: ClassVar = WriterConfig

    def fitting(self, parts: Mapping[str, str], items: Sequence[str]) -> int:
        """Return how many of the items, from the first, fit into one call."""
        groups = self.prompt.split(parts, list(enumerate(items, start=1)), max(1, len(items)), {})
        return len(groups[0]) if groups else 0

    def write(self, parts: Mapping[str, str], items: Sequence[str], meter: CostMeter) -> Written:
        """Return the text and the items' scores; items are numbered from 1 and fenced."""
        messages = self.prompt.messages(parts, list(enumerate(items, start=1)))
        [answer] = self._ask([messages], writer_contract(self.config), meter)
        said = answer.values()
        lines = into_sections(tidy(said[self.config.text_key]), self.config.sections)
        text, is_shortened = sectioned(lines, self.config.max_text_tokens)
        scores = said[self.config.scores_key]
        return Written(text, is_shortened, {i: scores[i + 1] for i in range(len(items)) if i + 1 in scores})
