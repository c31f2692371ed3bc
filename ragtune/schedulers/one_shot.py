"""The baseline: rerank the top N once."""

from __future__ import annotations

from ragtune.core.arguments import check_count
from ragtune.core.interfaces import BaseScheduler
from ragtune.core.policy.batching import propose
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.types import BatchProposal, RemainingBudgetView, StopRecord


class OneShotScheduler(BaseScheduler):
    """Fixed depth: one batch of the ``top_n`` best candidates, then stop (Nogueira and Cho 2019)."""

    def __init__(self, top_n: int | None = None) -> None:
        self.top_n = None if top_n is None else check_count("scheduler.top_n", top_n, low=1)

    def select_batch(self, pool: CandidatePool, budget: RemainingBudgetView) -> BatchProposal | StopRecord:
        if pool.batches:
            return StopRecord(reason="one_shot_done", source="scheduler", details={"reranked": len(pool.reranked)})
        return propose(pool.top_candidates(self.top_n or len(pool)), budget)
