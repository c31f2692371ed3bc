"""Pseudo-relevance feedback: how much documents read like the first stage's top documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ragtune.core.arrays import FloatArray
from ragtune.estimators.posterior._first_stage import squared_lengths, standardised
from ragtune.estimators.posterior._texts import compact

_TINY = 1e-6
"""Spreads and weights below it are none."""

_LIMIT = 3.0
"""Standard deviations: a document from outside the pool can be a wild outlier by a small pool's spread."""


class Feedback:
    """Cosine with the rank-weighted mean of the top documents' vectors (Rocchio 1971), each of these without itself.

    Args:
        pooled: first-stage evidence, shape (n,); the highest are the top documents.
        rows: L2-normalised text vectors, shape (n, terms), ``scipy.sparse.csr_matrix``.
        docs: how many top documents, >= 1.

    Attributes:
        column: the standardised likeness, shape (n,).
        says_something: whether some documents read more like the top documents than others do.
    """

    def __init__(self, pooled: FloatArray, rows: Any, docs: int) -> None:
        top = np.argsort(-pooled, kind="stable")[:docs]
        weights = 1.0 / np.log2(2.0 + np.arange(len(top)))
        weights /= weights.sum()
        short, self._terms = compact(rows)
        self._centroid = _weighted_sum(short, top.tolist(), weights.tolist())
        likeness = short @ self._centroid
        lengths = squared_lengths(rows[top])
        likeness[top] = (likeness[top] - weights * lengths) / np.maximum(1.0 - weights, _TINY)
        self._mean, self._deviation = float(likeness.mean()), float(likeness.std())
        self.column = standardised(likeness)
        self.says_something = self._deviation >= _TINY

    def of_new(self, rows: Any) -> FloatArray:
        """The likeness of documents that joined later, shape (m,); 0 where the first ones' says nothing."""
        if not self.says_something:
            return np.zeros(rows.shape[0])
        centroid = np.zeros(rows.shape[1])
        centroid[self._terms] = self._centroid
        likeness: FloatArray = (rows @ centroid - self._mean) / self._deviation
        return np.clip(likeness, -_LIMIT, _LIMIT)


def _weighted_sum(rows: Any, positions: Sequence[int], weights: Sequence[float]) -> FloatArray:
    """The sum of some rows, each times its weight, shape (terms,)."""
    total = np.zeros(rows.shape[1])
    for position, weight in zip(positions, weights, strict=True):
        place = slice(rows.indptr[position], rows.indptr[position + 1])
        total[rows.indices[place]] += rows.data[place] * weight
    return total
