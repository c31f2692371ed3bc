"""No reformulation."""

from __future__ import annotations

from collections.abc import Sequence

from ragtune.core.interfaces import BaseReformulator
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import ScoredDocument


class IdentityReformulator(BaseReformulator):
    """Leaves the query alone: no rewrites, no charge (rule R5)."""

    is_active = False

    def generate(self, context: RAGtuneContext, first_round: Sequence[ScoredDocument]) -> list[str]:
        return []
