"""Candidates that the caller has found already."""

from __future__ import annotations

from ragtune.core.interfaces import BaseRetriever
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import ScoredDocument


class GivenRetriever(BaseRetriever):
    """Hands out the candidates that came with the request, best first, as they were given.

    For callers who have a first stage of their own: ``controller.run(query, candidates=[...])``. A rewrite of the query
    finds nothing further. Without candidates there is nothing to rerank, and the answer is empty.
    """

    def retrieve(self, context: RAGtuneContext, top_k: int) -> list[ScoredDocument]:
        return list(context.candidates[:top_k])
