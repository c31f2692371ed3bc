"""The best fixed choice of ranks: a ceiling for policies to which a score tells nothing of other documents.

Where documents have no text, a policy knows the ranks and the first stage's scores, and the reranker's scores of what
it paid for. Unless those tell which other documents are good, all that it can choose is ranks, the same for all
queries, and how scores and ranks are fused in the end. Here both are chosen with the judgments of the very queries that
they are measured on, which nobody has. What a first stage's scores do tell is which documents are copies of each other,
as those have the same score: one that is scored makes its copies known for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.evaluate.curves import FloatArray

WEIGHTS = (1.0, 0.8, 0.6)
"""Shares of the reranker's score in the final order, the rest is the first stage's; all are tried."""

FIRST, UNSEEN = -20.0, (-20.0, 0.0)
"""What is taken for the score of a document that was not scored, in standard deviations of the query's; the lowest puts
all scored documents first, as fixed depth does."""

_CUTOFF = 10
_GAIN = 1e-9

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Pools:
    """The pools of q queries, n ranks each.

    Attributes:
        scores: shape (q, n), the reranker's logits in standard deviations of the query's pool; -inf where it has ended.
        gains: shape (q, n), the grade over the ideal discounted gain at 10, so that sums are nDCG@10; there 0.
        copies: shape (q, n, n), 1 where the first stage scores two documents alike, each with itself, else 0.
    """

    scores: FloatArray
    gains: FloatArray
    copies: NDArray[np.float32]

    def among(self, queries: Mask) -> Pools:
        """Those of some queries."""
        return Pools(self.scores[queries], self.gains[queries], self.copies[queries])

    def values(self, scored: Mask, weight: float = 1.0, unseen: float = FIRST) -> FloatArray:
        """nDCG@10 of each query, shape (q,), if the documents at these ranks, a mask of shape (n,), are scored, and so
        the scores of their copies known.

        The final key is ``weight`` s - (1 - ``weight``) ln(1 + rank), s being the score, or ``unseen``; ties by rank.
        """
        ranks = np.arange(1, len(scored) + 1)
        known = self.copies @ scored.astype(np.float32) > 0.0
        key = weight * np.where(known, self.scores, unseen) - (1.0 - weight) * np.log1p(ranks) - 1e-9 * ranks
        key[np.isneginf(self.scores)] = -np.inf
        top = np.argpartition(-key, _CUTOFF - 1, axis=1)[:, :_CUTOFF]
        order = np.take_along_axis(top, np.argsort(-np.take_along_axis(key, top, axis=1), axis=1), axis=1)
        found = np.take_along_axis(self.gains, order, axis=1)
        values: FloatArray = found @ (1.0 / np.log2(np.arange(2, _CUTOFF + 2)))
        return values


@dataclass(frozen=True)
class Ceiling:
    """What the best choice of ranks comes to.

    Attributes:
        scored: shape (n,), the ranks that are scored.
        weight, unseen: how the final order is made, see :meth:`Pools.values`.
        values: shape (q,), nDCG@10 of the queries with whose judgments it was chosen.
        elsewhere: shape (q,), nDCG@10 of each query if the ranks are chosen with the judgments of the others, in five
            parts, and the final order with all.
    """

    scored: Mask
    weight: float
    unseen: float
    values: FloatArray
    elsewhere: FloatArray


def ceiling(pools: Pools, count: int, folds: int = 5) -> Ceiling:
    """The best found choice of so many ranks and of a final order."""
    tried = [(weight, unseen, best_ranks(pools, count, weight, unseen)) for weight in WEIGHTS for unseen in UNSEEN]
    weight, unseen, scored = max(tried, key=lambda way: float(pools.values(way[2], *way[:2]).mean()))
    part = np.arange(len(pools.scores)) % folds
    elsewhere = np.zeros(len(part))
    for fold in range(min(folds, len(part))):
        mine = part == fold
        others = best_ranks(pools.among(~mine), count, weight, unseen)
        elsewhere[mine] = pools.among(mine).values(others, weight, unseen)
    return Ceiling(scored, weight, unseen, pools.values(scored, weight, unseen), elsewhere)


def best_ranks(pools: Pools, count: int, weight: float, unseen: float) -> Mask:
    """A mask of shape (n,) of at most ``count`` ranks with the largest mean nDCG@10 that is found.

    A greedy choice takes one after the other; then they are exchanged one for one until none helps. All subsets are too
    many to try, so a better one may exist.
    """
    scored = np.zeros(pools.scores.shape[1], dtype=bool)
    for _ in range(min(count, len(scored))):
        scored[_best(pools, scored, weight, unseen)[0]] = True
    value, settled = float(pools.values(scored, weight, unseen).mean()), False
    while not settled and not scored.all():
        settled = True
        for rank in np.flatnonzero(scored).tolist():
            scored[rank] = False
            other, gained = _best(pools, scored, weight, unseen)
            if gained > value + _GAIN:
                rank, value, settled = other, gained, False
            scored[rank] = True
    return scored


def _best(pools: Pools, scored: Mask, weight: float, unseen: float) -> tuple[int, float]:
    """The rank whose scoring gains most beside those that are scored, and the mean value then."""
    ranks: Sequence[int] = np.flatnonzero(~scored).tolist()
    values = []
    for rank in ranks:
        scored[rank] = True
        values.append(float(pools.values(scored, weight, unseen).mean()))
        scored[rank] = False
    best = int(np.argmax(values))
    return ranks[best], values[best]
