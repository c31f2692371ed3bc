"""A Cholesky factor that grows by rows, and by what is only supposed to be scored."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ragtune.core.arrays import FloatArray


class Factor:
    """Rows of a Cholesky factor over n documents, shape (k, n), in one array that grows by doubling.

    Behind the rows that stay stand those of what is only supposed to be scored, so that no supposition copies the
    factor: it writes its own rows, as far as they do not stand there yet.
    """

    def __init__(self, n: int) -> None:
        self._rows = np.zeros((32, n))
        self._supposed: list[FloatArray] = []
        self.k = 0

    @property
    def room(self) -> int:
        """Rows that the array has room for."""
        return len(self._rows)

    def append(self, row: FloatArray) -> None:
        """A further row, for good."""
        self._put(self.k, row)
        self.k += 1
        self._supposed = []

    def having(self, k: int, supposed: Sequence[FloatArray] = ()) -> FloatArray:
        """The first ``k`` rows with the supposed ones behind, (k + len(supposed), n); good until the next call."""
        if k != self.k:  # a belief of the past: more is known by now
            return np.vstack([self._rows[:k], *supposed])
        for i, row in enumerate(supposed):
            if i >= len(self._supposed) or self._supposed[i] is not row:
                self._put(k + i, row)
                self._supposed[i:] = [row]
        return self._rows[: k + len(supposed)]

    def widened(self, columns: FloatArray) -> Factor:
        """The factor of more documents: ``columns``, shape (room, count), behind the present ones."""
        wider = Factor(0)
        wider._rows, wider.k = np.hstack([self._rows, columns]), self.k
        return wider

    def _put(self, at: int, row: FloatArray) -> None:
        if at == len(self._rows):
            grown = np.empty((2 * at, self._rows.shape[1]))
            grown[:at] = self._rows
            self._rows = grown
        self._rows[at] = row


def next_row(
    position: int, covariance: FloatArray, factor: FloatArray, variance: FloatArray, noise: float
) -> tuple[FloatArray, float]:
    """The next row of a factor, shape (n,), and its pivot, if a document were scored next.

    Args:
        position: the document.
        covariance: shape (n,), its prior covariance with all.
        factor: shape (k, n).
        variance: shape (n,); one below 0 counts as 0.
        noise: variance of its score.
    """
    pivot = math.sqrt(max(float(variance[position]), 0.0) + noise)
    return (covariance - factor[:, position] @ factor) / pivot, pivot
