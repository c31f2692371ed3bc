"""Candidates that come with the request."""

from __future__ import annotations

from ragtune.core.interfaces import BaseRetriever
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import ScoredDocument


class GivenRetriever(BaseRetriever):
    """Returns the candidates of the request in their order; a rewrite of the query finds nothing further."""

    def retrieve(self, context: RAGtuneContext, top_k: int) -> list[ScoredDocument]:
        return list(context.candidates[:top_k])
