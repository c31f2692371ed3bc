"""What orders the ReRanker's candidates."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragtune.core.output import ControllerOutput
from ragtune.core.request.context import CostMeter
from ragtune.core.types import ScoredDocument
from ragtune.superprompt.rendering import rerank_query


@dataclass(frozen=True)
class Reranked:
    """A new order of candidates.

    Attributes:
        ids: all candidates, best first.
        scores: calibrated relevance in [0, 1] of those that were scored.
        details: further facts about the outcome, as JSON values; ``reranker`` in place of the stage's label,
            ``support`` by id for how far each candidate carries the prompt, at most 1, where the stage can tell.
        output: every decision and the anytime history, where a controller made the order.
    """

    ids: list[str]
    scores: dict[str, float]
    details: dict[str, Any] = field(default_factory=dict)
    output: ControllerOutput | None = None


class BaseRerankStage(ABC):
    """Orders candidates for a query."""

    @property
    def label(self) -> str:
        """What orders them, for people."""
        return type(self).__name__

    def query_of(self, body: Mapping[str, str]) -> str:
        """The query that :meth:`order` is to be asked for a prompt's ``body`` (rule E8)."""
        return rerank_query(body)

    def forget_failures(self) -> None:  # noqa: B027 - most have nothing to forget
        """Begin a new run: what an earlier one gave up is tried again."""

    @abstractmethod
    def order(
        self, query: str, candidates: Sequence[ScoredDocument], meter: CostMeter, query_id: str | None = None
    ) -> Reranked:
        """The same candidates in a new order; ties by the order that they come in.

        Args:
            query: the query that the candidates are ordered for.
            candidates: the candidates, best first, with unique ids; at least one.
            meter: meter that costs are charged to.
            query_id: id of the query in a test collection, which recorded scores are looked up by.
        """
