"""Overlapping blocks in one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ragtune.core.arguments import check_count
from ragtune.core.arrays import FloatArray
from ragtune.core.pool.items import PoolItem
from ragtune.estimators.comparing._windows import Ask, Play, WindowEstimator, WindowVerdict, by_halves

_DAMPING = 0.85


class JointRankEstimator(WindowEstimator):
    """JointRank (Dedov, "JointRank: Rank Large Set with Single Pass", ICTIR 2025, arXiv 2506.22262): blocks that are
    drawn beforehand and overlap, so that all can be ordered at the same time, and PageRank over what they prefer.

    The blocks are the published code's equi-replicate design: the list is shuffled and cut into blocks, ``replicas``
    times, and where a shuffle does not fill its last block, that takes its first documents from the next. A block's
    order is a link from every document to each that is before it, and the ranking is by PageRank with damping 0.85;
    documents of no block come behind, in first-stage order. It learns nothing from one call for the next.

    Under a limit of c calls the blocks hold as many documents as have room in c of them ``replicas`` times, the first
    stage's best: a design that is cut off would leave blocks without a link between them. A list of one window is
    asked once, where the published code asks again in another order.
    """

    def __init__(self, window: int = 20, replicas: int = 4, seed: int = 0) -> None:
        super().__init__(window)
        self.replicas = check_count("estimator.replicas", replicas, low=1)
        self.seed = check_count("estimator.seed", seed)

    def play(self, items: Sequence[PoolItem], calls: Callable[[], int | None]) -> Play:
        wins = np.zeros((len(items), len(items)))
        blocks = self._blocks(len(items), calls())
        for block in blocks:
            ask = Ask(block, _ranking(wins), opens=True)
            _count(wins, (yield ask) if len(blocks) > 1 else (yield from by_halves(ask)))
        return _ranking(wins)

    def _blocks(self, n: int, calls: int | None) -> list[list[int]]:
        reach = n if calls is None else min(n, max(calls * self.window // self.replicas, self.window))
        if reach <= self.window:
            return [list(range(reach))] if reach > 1 else []
        rng = np.random.default_rng(self.seed)
        blocks: list[list[int]] = []
        shuffled = rng.permutation(reach).tolist()
        while len(blocks) < self.replicas * reach // self.window:
            block, shuffled = shuffled[: self.window], shuffled[self.window :]
            if missing := self.window - len(block):
                taken = rng.permutation(np.setdiff1d(np.arange(reach), block))[:missing].tolist()
                shuffled = rng.permutation(np.setdiff1d(np.arange(reach), taken)).tolist()
                block = block + taken
            blocks.append(block)
        return blocks


def _count(wins: FloatArray, verdict: WindowVerdict) -> None:
    """Add how often the row's document was before the column's; those of one tier were not told apart."""
    for i, tier in enumerate(verdict.tiers):
        for worse in verdict.tiers[i + 1 :]:
            wins[np.ix_(tier, worse)] += 1.0


def _ranking(wins: FloatArray) -> list[int]:
    """Documents that were compared by PageRank, then all others; ties in first-stage order."""
    seen = np.flatnonzero(wins.sum(axis=0) + wins.sum(axis=1))
    links, count = wins[np.ix_(seen, seen)], len(seen)
    lost = links.sum(axis=0)
    # Who never lost links to nobody, which counts as a link to everybody.
    followed = np.where(lost > 0.0, links / np.maximum(lost, 1.0), 1.0 / max(count, 1))
    ranks = np.linalg.solve(np.eye(count) - _DAMPING * followed, np.full(count, 1.0 / max(count, 1)))
    order = seen[np.argsort(-ranks.round(12), kind="stable")].tolist()
    return [*order, *np.setdiff1d(np.arange(len(wins)), seen).tolist()]
