"""The top-k threshold: what a document's key must exceed to be among the k best."""

from __future__ import annotations

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
