"""Putting first-stage scores on the rerankers' scale."""

from __future__ import annotations

import numpy as np

from ragtune.core.arrays import FloatArray


def unit_interval(scores: FloatArray) -> FloatArray:
    """Min-max scaling to [0, 1], shape kept; all-equal scores become 0.5. Order-preserving."""
    if not len(scores):
        return scores
    low, high = float(scores.min()), float(scores.max())
    if high <= low:
        return np.full(len(scores), 0.5)
    return (scores - low) / (high - low)
