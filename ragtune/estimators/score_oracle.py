"""Ceiling: knows the reranker's scores beforehand."""

from __future__ import annotations

import numpy as np

from ragtune.core.errors import ConfigError
from ragtune.core.interfaces import BaseEstimator, BaseReranker
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.pool.valuation import Valuation
from ragtune.core.request.context import RAGtuneContext


class ScoreOracleEstimator(BaseEstimator):
    """Values a candidate by the score that the reranker will give it (rule C5)."""

    def __init__(self, reranker: BaseReranker) -> None:
        if not reranker.facts.is_recorded:
            raise ConfigError(
                f"estimator 'score_oracle' needs a recorded reranker, not {type(reranker).__name__}: "
                "use reranker=replay"
            )
        self._reranker = reranker

    def value(self, pool: CandidatePool, context: RAGtuneContext) -> Valuation:
        known: list[float] = context.remember(self, list)
        if len(pool) > len(known):
            joined = pool.items_at(np.arange(len(known), len(pool)))
            said = self._reranker.rerank(joined, context, "oracle")
            known += [said.get(doc_id, 0.0) for doc_id in pool.doc_ids[len(known) :]]  # 0 for what is lost
        return pool.valuation(np.fromiter(known, float, len(pool)))
