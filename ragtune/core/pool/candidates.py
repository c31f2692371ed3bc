"""The best of what may still be scheduled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ragtune.core.arrays import FloatArray, IntArray
from ragtune.core.pool.columns import CANDIDATE


class CandidateRanking:
    """Ranks CANDIDATE documents by an array of numbers, equal ones in the pool's order.

    An estimator whose values stay hands in the same closed array batch after batch: it is sorted once, since no
    document ever becomes a candidate again. Otherwise a partition finds the best in O(n).
    """

    def __init__(self) -> None:
        self._by: FloatArray | None = None
        self._ranked: IntArray | None = None

    def best(self, count: int, by: FloatArray, states: NDArray[np.int8], eligible: IntArray) -> IntArray:
        """Positions of the ``count`` best, best first.

        Args:
            count: all of them where there are fewer, none where it is below 1.
            by: shape (n,), higher is better.
            states: shape (n,), of the pool as it is now.
            eligible: positions of its candidates, ascending.
        """
        count = max(count, 0)
        ranked = self._ranked_again(by, states)
        if ranked is not None:
            return ranked[:count]
        values = by[eligible]
        if 0 < count < len(eligible):
            keep = np.flatnonzero(values >= np.partition(values, len(values) - count)[len(values) - count])
            eligible, values = eligible[keep], values[keep]
        return eligible[np.argsort(-values, kind="stable")[:count]]

    def _ranked_again(self, by: FloatArray, states: NDArray[np.int8]) -> IntArray | None:
        if by.flags.writeable or by is not self._by:
            self._by, self._ranked = by, None
            return None
        ranked = np.argsort(-by, kind="stable") if self._ranked is None else self._ranked
        self._ranked = ranked[states[ranked] == CANDIDATE]
        return self._ranked
