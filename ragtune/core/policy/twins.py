"""Documents of the same text: what a reranker scores alike, a ranking keeps together."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from ragtune.core.arrays import FloatArray
from ragtune.core.pool.pool import CandidatePool


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
