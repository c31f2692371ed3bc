"""The top-k threshold, which a document's key must exceed to be among the k best, and the chance that it does."""

from __future__ import annotations

from math import erfc
from typing import NamedTuple

import numpy as np

from ragtune.core.arrays import FloatArray


class TopKThreshold(NamedTuple):
    """The keys on both sides of the threshold; equal where there are no more than k documents.

    Attributes:
        inside: key of the document at rank k, the last one inside.
        outside: key of the document at rank k + 1, the first one outside.
    """

    inside: float
    outside: float

    @property
    def midpoint(self) -> float:
        """Halfway between them."""
        return (self.inside + self.outside) / 2.0


def top_k_threshold(keys: FloatArray, k: int) -> TopKThreshold:
    """The top-k threshold of the documents with these ``keys``, shape (n,), the higher the better; O(n).

    Where n is at most k, both sides are the median of the keys, and 0 where there are none.
    """
    if len(keys) <= k:
        middle = float(np.median(keys)) if len(keys) else 0.0
        return TopKThreshold(middle, middle)
    parted = np.partition(keys, (len(keys) - k - 1, len(keys) - k))
    return TopKThreshold(float(parted[len(keys) - k]), float(parted[len(keys) - k - 1]))


def tail(z: FloatArray) -> FloatArray:
    """P(Z > z) of a standard normal."""
    return np.array([0.5 * erfc(value / np.sqrt(2.0)) for value in np.asarray(z, dtype=float)])
