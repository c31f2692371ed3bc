"""Ranking keys: the threshold that one must exceed to be among the k best, and documents of the same text."""

from __future__ import annotations

from collections import defaultdict
from math import erfc
from typing import NamedTuple

import numpy as np

from ragtune.core.arrays import FloatArray
from ragtune.core.pool.pool import CandidatePool


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


def with_twins_level(keys: FloatArray, pool: CandidatePool, *, compared: bool = False) -> FloatArray:
    """Ranking keys of a pool in which scored documents of the same text and the same score share the largest of theirs.

    First-stage evidence differs between such twins, so an estimator that fuses it with the scores would tear them
    apart. Documents without text are nobody's twins.

    Args:
        keys: shape (n,), one a document, in the pool's order; not changed.
        pool: the pool.
        compared: scores count within a batch only, so documents of the same text are twins whatever their scores.
    """
    scored = pool.reranked
    compared_scores = np.zeros(len(scored)) if compared else pool.scores[scored]
    scores, group, counts = np.unique(compared_scores, return_inverse=True, return_counts=True)
    if len(scores) == len(scored):
        return keys
    alike: dict[tuple[int, str], list[int]] = defaultdict(list)
    for position, score in zip(scored.tolist(), group.tolist(), strict=True):
        if counts[score] > 1 and (text := pool.entries[position].content):
            alike[score, text].append(position)
    level = keys.copy()
    for twins in alike.values():
        level[twins] = keys[twins].max()
    return level
