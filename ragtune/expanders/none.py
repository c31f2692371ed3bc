"""No expansion."""

from __future__ import annotations

from ragtune.core.interfaces import BaseExpander
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import ScoredDocument


class NoExpander(BaseExpander):
    """Leaves the pool as it was retrieved."""

    is_active = False

    def expand(self, pool: CandidatePool, context: RAGtuneContext, limit: int) -> list[ScoredDocument]:
        return []
