"""The interface of rerank stages."""

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
        scores: calibrated relevance in [0, 1] of scored candidates.
        details: further facts as JSON values; ``support`` by id is each candidate's support for the prompt, at most 1.
        output: decisions and anytime history, where a controller made the order.
    """

    ids: list[str]
    scores: dict[str, float]
    details: dict[str, Any] = field(default_factory=dict)
    output: ControllerOutput | None = None


class BaseRerankStage(ABC):
    """Orders candidates for a query."""

    @property
    def label(self) -> str:
        """Name of the reranker for people."""
        return type(self).__name__

    def query_of(self, body: Mapping[str, str]) -> str:
        """Return the query for a prompt's ``body`` (rule E8)."""
        return rerank_query(body)

    def forget_failures(self) -> None:  # noqa: B027 - most have nothing to forget
        """Begin a new run: strategies that failed before are tried again."""

    @abstractmethod
    def order(
        self, query: str, candidates: Sequence[ScoredDocument], meter: CostMeter, query_id: str | None = None
    ) -> Reranked:
        """Return the same candidates in a new order; ties keep the given order.

        Args:
            query: the query.
            candidates: the candidates, best first, with unique ids; at least one.
            meter: meter that is charged.
            query_id: id of the query in a test collection, for recorded scores.
        """
