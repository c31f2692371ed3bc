"""Selection of the best documents by a dense score vector, ties by document id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragtune.core.arrays import IntArray


def id_ranks(doc_ids: Sequence[str]) -> IntArray:
    """Rank of each id in ascending order of ids, shape (n,): the tie-breaking key of :func:`best_positions`."""
    ranks = np.empty(len(doc_ids), dtype=np.intp)
    ranks[sorted(range(len(doc_ids)), key=doc_ids.__getitem__)] = np.arange(len(doc_ids))
    return ranks


def best_positions(scores: NDArray[np.floating[Any]], tie_ranks: IntArray, k: int, above: float = -np.inf) -> IntArray:
    """Positions of the ``k`` highest scores that exceed ``above``, best first, equal scores by tie rank. O(n).

    Args:
        scores: shape (n,), finite.
        tie_ranks: shape (n,), from :func:`id_ranks`.
        k: how many at most.
        above: scores of this value or less are left out.
    """
    positions = np.flatnonzero(scores > above)
    if k < len(positions):
        threshold = -np.partition(-scores[positions], k - 1)[k - 1] if k > 0 else np.inf
        positions = positions[scores[positions] >= threshold]
    return positions[np.lexsort((tie_ranks[positions], -scores[positions]))][:k]
