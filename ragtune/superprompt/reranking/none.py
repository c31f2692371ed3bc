"""No reranking: Retrieval's order stands."""

from __future__ import annotations

from collections.abc import Sequence

from ragtune.core.request.context import CostMeter
from ragtune.core.types import ScoredDocument
from ragtune.superprompt.reranking.base import BaseRerankStage, Reranked


class NoRerankStage(BaseRerankStage):
    """Keeps the order and costs nothing: what every other way of reranking is to be compared with."""

    def order(
        self, query: str, candidates: Sequence[ScoredDocument], meter: CostMeter, query_id: str | None = None
    ) -> Reranked:
        return Reranked([doc.id for doc in candidates], {})
