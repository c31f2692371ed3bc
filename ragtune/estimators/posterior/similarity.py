"""Re-estimates the remaining candidates from the winners."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ragtune.core.arguments import check_number, check_positive, check_vectors
from ragtune.core.arrays import FloatArray, dense
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
        self.strength = check_positive("estimator.strength", strength)

    def value(self, pool: CandidatePool, context: RAGtuneContext) -> Valuation:
        likeness = context.remember(self, _Likeness)
        influence = likeness.to(pool, self._vectors) ** self.power
        weighted = self.strength * pool.roster.first_stage_scores + influence @ pool.scores[likeness.scored]
        return pool.valuation(np.clip(weighted / (self.strength + influence.sum(axis=1)), 0.0, 1.0))


class _Likeness:
    """The cosines of all documents with the scored ones, shape (n, k), in the order of ``scored``."""

    def __init__(self) -> None:
        self._rows: Any = None
        self._begin(0)

    def _begin(self, size: int) -> None:
        self.scored: list[int] = []
        self._cosines: FloatArray = np.zeros((size, 0))

    def to(self, pool: CandidatePool, vectors: TextVectors) -> FloatArray:
        if self._rows is None or len(self._cosines) != len(pool):
            self._rows = vectors.of(pool.entries)
            self._begin(len(pool))
        if new := [position for position in pool.reranked.tolist() if position not in self.scored]:
            found = np.clip(dense(self._rows @ self._rows[new].T), 0.0, 1.0)
            self._cosines = np.hstack([self._cosines, found])
            self.scored += new
        return self._cosines
