"""Batches by priority."""

from __future__ import annotations

import numpy as np

from ragtune.core.arguments import check_count
from ragtune.core.arrays import FloatArray, IntArray
from ragtune.core.interfaces import BaseAcquisition, BaseScheduler
from ragtune.core.policy.batching import choose, propose
from ragtune.core.policy.scaling import top_k_threshold
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.types import BatchProposal, RemainingBudgetView, StopRecord


class BatchScheduler(BaseScheduler):
    """Base of schedulers that send the most promising candidates, some at a time."""

    def __init__(self, batch_size: int = 2, acquisition: BaseAcquisition | None = None) -> None:
        self.batch_size = check_count("scheduler.batch_size", batch_size, low=1)
        self.acquisition = acquisition

    def chosen(self, pool: CandidatePool, count: int | None = None) -> list[str]:
        """The documents of the next batch, best first: ``count`` of them, or ``batch_size``."""
        return choose(pool, self.batch_size if count is None else count, self.acquisition)


def below_top(pool: CandidatePool, positions: IntArray, k: int) -> FloatArray:
    """By how many deviations of its own each document's key lies below the top-k threshold, shape (len(positions),)."""
    belief = pool.belief_or_empirical()
    threshold = top_k_threshold(belief.key[pool.ranked], k)
    return (threshold - belief.key[positions]) / np.sqrt(np.maximum(belief.variance[positions], 1e-12))


class GreedyScheduler(BatchScheduler):
    """Takes the most promising candidates, batch by batch, until the budget is spent (rule S7)."""

    def select_batch(self, pool: CandidatePool, budget: RemainingBudgetView) -> BatchProposal | StopRecord:
        return propose(self.chosen(pool), budget)
