"""The first stage's own opinion."""

from __future__ import annotations

from ragtune.core.interfaces import BaseEstimator
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.pool.valuation import Valuation
from ragtune.core.request.context import RAGtuneContext


class BaselineEstimator(BaseEstimator):
    """Values a candidate by its retrieval score and never changes its mind (rule S6).

    Scores are scaled to [0, 1] within the pool, so that they are comparable with rerank scores at all; the order is
    the first stage's.
    """

    def value(self, pool: CandidatePool, context: RAGtuneContext) -> Valuation:
        return pool.valuation(pool.roster.first_stage_scores)
