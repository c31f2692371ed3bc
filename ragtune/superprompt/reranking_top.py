"""Fixed depth: one pass over the top N2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ragtune.core.interfaces import BaseReranker
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.context import CostMeter, RAGtuneContext
from ragtune.core.types import ScoredDocument
from ragtune.superprompt.reranking import BaseRerankStage, Reranked

CROSS_ENCODER = "cross-encoder/ms-marco-MiniLM-L-6-v2"
"""The model of rule E8."""


class TopRerankStage(BaseRerankStage):
    """Scores every candidate in one batch: the fixed depth of rule E8.

    Candidates that the reranker cannot score come last, in their order.

    Args:
        reranker: any reranker of the library.
    """

    def __init__(self, reranker: BaseReranker) -> None:
        self.reranker = reranker

    @property
    def label(self) -> str:
        return name_of(self.reranker)

    @classmethod
    def cross_encoder(cls, model: str = CROSS_ENCODER, **options: Any) -> TopRerankStage:
        """With a cross-encoder of sentence-transformers, see :class:`CrossEncoderReranker` for the options."""
        from ragtune.rerankers.models.cross_encoder import CrossEncoderReranker

        return cls(CrossEncoderReranker(model, **options))

    def order(
        self, query: str, candidates: Sequence[ScoredDocument], meter: CostMeter, query_id: str | None = None
    ) -> Reranked:
        items = [PoolItem.from_document(doc, rank, {"retrieval": doc.score}) for rank, doc in enumerate(candidates)]
        tracker = CostBudget.unlimited().create_tracker()
        context = RAGtuneContext(query=query, query_id=query_id or "", tracker=tracker, meter=meter)
        expected = self.reranker.expected_cost(items, context)
        scores = self.reranker.rerank(items, context, "default")
        if meter.charged is None:
            meter.charge(expected)
        ranked = sorted((doc.id for doc in candidates if doc.id in scores), key=lambda doc_id: -scores[doc_id])
        unscored = [doc.id for doc in candidates if doc.id not in scores]
        return Reranked([*ranked, *unscored], {doc_id: float(scores[doc_id]) for doc_id in ranked})


def name_of(reranker: BaseReranker) -> str:
    """Return a reranker's name for people: its model, else its class."""
    return str(getattr(reranker, "model", type(reranker).__name__))
