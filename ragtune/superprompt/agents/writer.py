"""The writer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ragtune.core.request.context import CostMeter
from ragtune.superprompt.agents.base import BaseAgent
from ragtune.superprompt.agents.config import WriterConfig
from ragtune.superprompt.agents.contracts import writer_contract
from ragtune.superprompt.agents.prompt import Numbered
from ragtune.superprompt.agents.sections import into_sections, sectioned
from ragtune.superprompt.agents.texts import tidy


@dataclass(frozen=True)
class Written:
    """The result of a writer.

    Attributes:
        text: Markdown, all sections in their order, within the limit.
        is_shortened: whether lines had to go.
        scores: relevance in [0, 1] by place in the items given, from 0; of those that the writer scored.
    """

    text: str
    is_shortened: bool
    scores: Mapping[int, float]


class Writer(BaseAgent[WriterConfig]):
    """Writes Markdown in fixed sections from items, in a single call."""

    accepts: ClassVar = WriterConfig

    def fitting(self, parts: Mapping[str, str], items: Sequence[str]) -> int:
        """How many of the items, from the first, fit into one call."""
        groups = self.prompt.split(parts, _numbered(items), max(1, len(items)), {})
        return len(groups[0]) if groups else 0

    def write(self, parts: Mapping[str, str], items: Sequence[str], meter: CostMeter) -> Written:
        """The text, and what the items are worth.

        Args:
            parts: parts of the input by name; each is fenced.
            items: texts that are numbered from 1 and fenced, each by itself.
            meter: meter that the cost is charged to.

        Raises:
            LLMError: if there is no answer, or none with a text in it.
        """
        messages = self.prompt.messages(parts, _numbered(items))
        said = self._ask(messages, writer_contract(self.config), meter).values()
        lines = into_sections(tidy(said[self.config.text_key]), self.config.sections)
        text, is_shortened = sectioned(lines, self.config.max_text_tokens)
        scores = said[self.config.scores_key]
        return Written(text, is_shortened, {i: scores[i + 1] for i in range(len(items)) if i + 1 in scores})


def _numbered(items: Sequence[str]) -> list[Numbered]:
    return list(enumerate(items, start=1))
