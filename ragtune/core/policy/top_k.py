"""The border of the top k."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ragtune.core.arrays import FloatArray


class Bar(NamedTuple):
    """Keys of ranks k and k + 1; equal where there are no more than k documents."""

    inside: float
    outside: float

    @property
    def midpoint(self) -> float:
        """Halfway between them."""
        return (self.inside + self.outside) / 2.0


def top_k_bar(keys: FloatArray, k: int) -> Bar:
    """The bar of the current order."""
    if len(keys) <= k:
        middle = float(np.median(keys)) if len(keys) else 0.0
        return Bar(middle, middle)
    parted = np.partition(keys, (len(keys) - k - 1, len(keys) - k))
    return Bar(float(parted[len(keys) - k]), float(parted[len(keys) - k - 1]))
