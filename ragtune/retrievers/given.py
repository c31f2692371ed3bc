"""Candidates that come with the request."""

from __future__ import annotations

from collections.abc import Sequence

from ragtune.core.hits import Hits
from ragtune.core.interfaces import BaseRetriever
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import ScoredDocument


class GivenRetriever(BaseRetriever):
    """Returns the candidates of the request in their order; a rewrite of the query finds nothing further."""

    def retrieve(self, context: RAGtuneContext, top_k: int) -> Sequence[ScoredDocument]:
        found = context.candidates
        return found if isinstance(found, Hits) and len(found) <= top_k else list(found[:top_k])
