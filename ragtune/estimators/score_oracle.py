"""Ceiling: knows the reranker's scores beforehand."""

from __future__ import annotations

import numpy as np

from ragtune.core.arrays import FloatArray
from ragtune.core.errors import ConfigError
from ragtune.core.interfaces import BaseEstimator, BaseReranker
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.pool.valuation import Valuation
from ragtune.core.request.context import RAGtuneContext


class ScoreOracleEstimator(BaseEstimator):
    """Values a candidate by the score that the reranker will give it (rule C5): no policy that trusts its
    reranker can choose documents better.

    Args:
        reranker: a recorded reranker; peeking at a live one would cost what the budget limits.

    Raises:
        ConfigError: if the reranker is not recorded.
    """

    reads_budget = False
    reads_scores = False

    def __init__(self, reranker: BaseReranker) -> None:
        if not reranker.is_recorded:
            raise ConfigError(
                f"estimator 'score_oracle' needs a recorded reranker, not {type(reranker).__name__}: "
                "use reranker=replay"
            )
        self._reranker = reranker

    def value(self, pool: CandidatePool, context: RAGtuneContext) -> Valuation:
        known: dict[str, float] = context.remember(self, dict)
        if new := [i for i, doc_id in enumerate(pool.doc_ids) if doc_id not in known]:
            # What the reranker loses comes last.
            known |= dict.fromkeys((pool.doc_ids[i] for i in new), 0.0)
            known |= self._reranker.rerank(pool.items_at(np.array(new)), context, "oracle")
        mean: FloatArray = np.fromiter(map(known.__getitem__, pool.doc_ids), float, len(pool))
        return pool.valuation(mean)
