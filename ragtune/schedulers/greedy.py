"""Batches by priority."""

from __future__ import annotations

from ragtune.core.arguments import check_count
from ragtune.core.interfaces import BaseAcquisition, BaseScheduler
from ragtune.core.policy.batching import choose, propose
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


class GreedyScheduler(BatchScheduler):
    """Takes the most promising candidates, batch by batch, until the budget is spent (rule S7)."""

    def select_batch(self, pool: CandidatePool, budget: RemainingBudgetView) -> BatchProposal | StopRecord:
        return propose(self.chosen(pool), budget)
