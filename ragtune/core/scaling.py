"""Putting first-stage scores on the rerankers' scale."""

from __future__ import annotations

import numpy as np

from ragtune.core.arrays import FloatArray
from ragtune.core.pool import CandidatePool


def unit_interval(scores: FloatArray) -> FloatArray:
    """Min-max scaling to [0, 1], shape kept; all-equal scores become 0.5. Order-preserving."""
    if not len(scores):
        return scores
    low, high = float(scores.min()), float(scores.max())
    if high <= low:
        return np.full(len(scores), 0.5)
    return (scores - low) / (high - low)


def first_stage_scores(pool: CandidatePool) -> FloatArray:
    """The pool's retrieval scores in [0, 1], shape (n,).

    What the first stage ranked is min-max scaled. What an expander found has a score on the rerankers' scale already,
    and is only clipped: growth changes no earlier document's value.
    """
    discovered = pool.discovered
    if not discovered.any():
        return unit_interval(pool.retrieval_scores)
    scores: FloatArray = np.clip(pool.retrieval_scores, 0.0, 1.0)
    scores[~discovered] = unit_interval(pool.retrieval_scores[~discovered])
    return scores
