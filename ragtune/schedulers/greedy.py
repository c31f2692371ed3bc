"""Batches by priority."""

from __future__ import annotations

from ragtune.core.batching import propose, require_batch_size
from ragtune.core.interfaces import BaseScheduler
from ragtune.core.pool import CandidatePool
from ragtune.core.types import BatchProposal, RemainingBudgetView, StopRecord


class GreedyScheduler(BaseScheduler):
    """Takes the best candidates by the estimator's acquisition (else its mean), batch by batch (0.54, "Scheduler").

    Args:
        batch_size: documents a batch; the last one is as small as the budget demands.

    Raises:
        ConfigError: if ``batch_size`` is not a positive integer.
    """

    def __init__(self, batch_size: int = 5) -> None:
        self.batch_size = require_batch_size(batch_size)

    def select_batch(self, pool: CandidatePool, budget: RemainingBudgetView) -> BatchProposal | StopRecord:
        return propose(pool.top_candidates(self.batch_size), budget)
