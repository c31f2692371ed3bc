"""Array types, all one-dimensional over the pool unless said otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]


_HUGE = 1e150  # numbers above it have squares that no float holds


def squarable(values: FloatArray, axis: int | None = None) -> FloatArray:
    """The values, divided by the largest of them, or of those along an axis, where their squares were too large."""
    largest = np.abs(values).max(axis=axis, keepdims=True, initial=0.0)
    if largest.max(initial=0.0) <= _HUGE:
        return values
    scaled: FloatArray = values / np.where(largest > _HUGE, largest, 1.0)
    return scaled


def unit_interval(scores: FloatArray) -> FloatArray:
    """Min-max scaling to [0, 1], shape kept; all-equal scores become 0.5. Order-preserving."""
    if not len(scores):
        return scores
    scores = scores / 2.0  # so that the span of what floats hold is one, too
    low, high = float(scores.min()), float(scores.max())
    if high <= low:
        return np.full(len(scores), 0.5)
    return (scores - low) / (high - low)


def dense(values: Any) -> NDArray[Any]:
    """The array of a product of text vectors, which is a sparse matrix where they are; of its own type of numbers."""
    return np.asarray(values.toarray() if hasattr(values, "toarray") else values)
