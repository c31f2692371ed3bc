"""Re-estimates the remaining candidates from the winners."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ragtune.core.arguments import check_number, check_vectors
from ragtune.core.arrays import dense
from ragtune.core.interfaces import BaseEstimator, TextVectors
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.pool.valuation import Valuation
from ragtune.core.request.context import RAGtuneContext
from ragtune.data.corpus import Corpus


class SimilarityEstimator(BaseEstimator):
    """Mixes the first-stage score with a kernel regression on the rerank scores seen so far (rule S6).

    For candidate i with scaled retrieval score b_i, and reranked documents j with scores s_j and text cosines c_ij,

        mean_i = (1 - w_i) b_i + w_i sum_j c_ij^p s_j / sum_j c_ij^p,    w_i = sum_j c_ij^p / (strength + sum_j c_ij^p)

    so that evidence speaks louder the more, and the more similar, documents have been scored (Nadaraya 1964, Watson
    1964, shrunk towards the prior by ``strength`` pseudo-observations).
    """

    def __init__(
        self, corpus: Corpus, vectors: Callable[[Corpus], TextVectors], power: float = 2.0, strength: float = 0.5
    ) -> None:
        self._vectors = check_vectors("estimator.vectors", vectors)(corpus)
        self.power = check_number("estimator.power", power, low=1.0)
        self.strength = check_number("estimator.strength", strength, low=1e-9)

    def value(self, pool: CandidatePool, context: RAGtuneContext) -> Valuation:
        made: list[Any] = context.remember(self, list)
        if not made or made[0].shape[0] != len(pool):
            made[:] = [self._vectors.of(pool.entries)]
        scored = list(dict.fromkeys(position for batch in pool.batches for position in batch.positions.tolist()))
        scored = [position for position in scored if not np.isnan(pool.scores[position])]
        influence = np.clip(dense(made[0] @ made[0][scored].T), 0.0, 1.0) ** self.power
        weighted = self.strength * pool.roster.first_stage_scores + influence @ pool.scores[scored]
        return pool.valuation(np.clip(weighted / (self.strength + influence.sum(axis=1)), 0.0, 1.0))
