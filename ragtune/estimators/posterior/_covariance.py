"""The prior covariance of a pool's documents, by columns."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ragtune.core.arrays import FloatArray
from ragtune.estimators.posterior._first_stage import compact


class Covariance:
    """K = XX' + text_weight C + D of n documents, see :class:`ragtune.estimators.posterior._posterior.Prior`.

    A column is made when it is asked for and held until it is forgotten: a batch asks for it when choosing, and again
    when scored.
    """

    def __init__(self, design: FloatArray, rows: Any, own: FloatArray, text_weight: float) -> None:
        self.design, self.rows = design, rows
        self._own, self._text_weight = own, text_weight
        self._compact, _ = compact(rows)
        self._buffer = np.zeros(self._compact.shape[1])
        self._columns: dict[int, FloatArray] = {}

    def column(self, position: int) -> FloatArray:
        """Covariance of a document with all, shape (n,)."""
        if position not in self._columns:
            place = slice(self._compact.indptr[position], self._compact.indptr[position + 1])
            terms = self._compact.indices[place]
            self._buffer[terms] = self._compact.data[place]
            column = self.design @ self.design[position] + self._text_weight * (self._compact @ self._buffer)
            column[position] += self._own[position]
            self._columns[position] = column
            self._buffer[terms] = 0.0
        return self._columns[position]

    def forget(self, position: int) -> None:
        """Let a column go."""
        self._columns.pop(position, None)

    def extended(self, design: FloatArray, rows: Any, own: FloatArray) -> Covariance:
        """The covariance of these and further documents."""
        from scipy.sparse import vstack

        return Covariance(
            np.vstack([self.design, design]),
            vstack([self.rows, rows], format="csr"),
            np.append(self._own, own),
            self._text_weight,
        )


def next_row(
    position: int, covariance: FloatArray, factor: FloatArray, variance: FloatArray, noise: float
) -> tuple[FloatArray, float]:
    """The next row of a Cholesky factor over n documents, shape (n,), and its pivot, if a document were scored next."""
    pivot = math.sqrt(max(float(variance[position]), 0.0) + noise)
    return (covariance - factor[:, position] @ factor) / pivot, pivot
