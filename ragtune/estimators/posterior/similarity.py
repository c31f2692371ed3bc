"""Re-estimates the remaining candidates from the winners."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ragtune.core.arguments import check_number, check_positive, check_vectors
from ragtune.core.arrays import FloatArray, dense
from ragtune.core.interfaces import BaseEstimator, TextVectors
from ragtune.core.policy.scaling import first_stage_scores
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.pool.valuation import Valuation
from ragtune.core.request.context import RAGtuneContext
from ragtune.data.corpus import Corpus
from ragtune.estimators.posterior._first_stage import cosines_at_once


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
        self.strength = check_positive("estimator.strength", strength)

    def value(self, pool: CandidatePool, context: RAGtuneContext) -> Valuation:
        evidence: _Evidence = context.remember(self, lambda: _Evidence(self._vectors, self.power))
        weight, weighted = evidence.update(pool)
        mean = (self.strength * first_stage_scores(pool) + weighted) / (self.strength + weight)
        return pool.valuation(mean)


class _Evidence:
    """Running sums of c^p and c^p s over the reranked documents: O(n) work and memory a new score."""

    def __init__(self, vectors: TextVectors, power: float) -> None:
        self._vectors = vectors
        self._power = power
        self._rows: Any = None
        self._all: FloatArray | None = None
        self._first: FloatArray = np.zeros(0)  # scores, NaN where there was none
        self._seen = np.zeros(0, dtype=bool)
        self._weight: FloatArray = np.zeros(0)
        self._weighted: FloatArray = np.zeros(0)

    def update(self, pool: CandidatePool) -> tuple[FloatArray, FloatArray]:
        if len(self._seen) != len(pool):
            self._restart(pool)
        unscored = pool.reranked[np.isnan(self._first[pool.reranked])]
        self._first[unscored] = pool.scores[unscored]
        new = np.flatnonzero(~np.isnan(self._first) & ~self._seen)
        if len(new):
            influence = self._cosines(new) ** self._power
            self._weight += influence.sum(axis=1)
            self._weighted += influence @ self._first[new]
            self._seen[new] = True
        return self._weight, self._weighted

    def _restart(self, pool: CandidatePool) -> None:
        self._rows = self._vectors.of(pool.entries)
        self._all = cosines_at_once(self._rows)
        self._first = np.append(self._first, np.full(len(pool) - len(self._first), np.nan))
        self._seen = np.zeros(len(pool), dtype=bool)
        self._weight, self._weighted = np.zeros(len(pool)), np.zeros(len(pool))

    def _cosines(self, positions: Any) -> FloatArray:
        if self._all is not None:
            return np.clip(np.ascontiguousarray(self._all[:, positions]), 0.0, 1.0)  # sums go by the layout
        cosines: FloatArray = dense(self._rows @ self._rows[positions].T)
        return np.clip(cosines, 0.0, 1.0)
