"""Batches by priority."""

from __future__ import annotations

from ragtune.core.policy.batching import propose
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.types import BatchProposal, RemainingBudgetView, StopRecord
from ragtune.schedulers._batches import BatchScheduler


class GreedyScheduler(BatchScheduler):
    """Takes the most promising candidates, batch by batch, until the budget is spent (rule S7).

    Args:
        batch_size, acquisition, diverse: see :class:`ragtune.schedulers._batches.BatchScheduler`.

    Raises:
        ConfigError: if ``batch_size`` is not a positive integer.
    """

    def select_batch(self, pool: CandidatePool, budget: RemainingBudgetView) -> BatchProposal | StopRecord:
        return propose(self.chosen(pool), budget)
