"""Batches by priority."""

from __future__ import annotations

from ragtune.core.arguments import check_count
from ragtune.core.interfaces import BaseAcquisition, BaseScheduler
from ragtune.core.policy.batching import choose, propose
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.types import BatchProposal, RemainingBudgetView, StopRecord


class GreedyScheduler(BaseScheduler):
    """Takes the most promising candidates, batch by batch, until the budget is spent (0.54, "Scheduler").

    Args:
        batch_size: documents a batch; the last one is as small as the budget demands.
        acquisition: what "promising" means where the estimator gives a belief; None, and estimators without one: the
            highest priority.
        diverse: no near-duplicates inside a batch, see :func:`ragtune.core.policy.batching.choose`.

    Raises:
        ConfigError: if ``batch_size`` is not a positive integer.
    """

    def __init__(self, batch_size: int = 2, acquisition: BaseAcquisition | None = None, diverse: bool = True) -> None:
        self.batch_size = check_count("scheduler.batch_size", batch_size, low=1)
        self.acquisition = acquisition
        self.diverse = diverse

    def select_batch(self, pool: CandidatePool, budget: RemainingBudgetView) -> BatchProposal | StopRecord:
        return propose(choose(pool, self.batch_size, self.acquisition, diverse=self.diverse), budget)
