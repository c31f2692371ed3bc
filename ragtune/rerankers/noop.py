"""No reranking."""

from __future__ import annotations

from collections.abc import Sequence

from ragtune.core.component import RerankerFacts
from ragtune.core.interfaces import BaseReranker
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import RAGtuneContext


class NoOpReranker(BaseReranker):
    """Returns every document's current final score, clipped to [0, 1] (rule A5), for no tokens, time or money."""

    facts = RerankerFacts(is_recorded=True, unpriced=frozenset())  # so that a run without a live one repeats exactly

    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        return {item.doc_id: min(1.0, max(0.0, item.final_score())) for item in items}
