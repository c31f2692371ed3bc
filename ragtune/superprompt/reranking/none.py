"""No reranking."""

from __future__ import annotations

from collections.abc import Sequence

from ragtune.core.request.context import CostMeter
from ragtune.core.types import ScoredDocument
from ragtune.superprompt.reranking.base import BaseRerankStage, Reranked


class NoRerankStage(BaseRerankStage):
    """Keeps Retrieval's order and costs nothing: the baseline of all other stages."""

    def order(
        self, query: str, candidates: Sequence[ScoredDocument], meter: CostMeter, query_id: str | None = None
    ) -> Reranked:
        return Reranked([doc.id for doc in candidates], {})
