"""Stops when further reranking is unlikely to change the top k."""

from __future__ import annotations

import numpy as np

from ragtune.core.arguments import check_count, check_number
from ragtune.core.interfaces import BaseAcquisition
from ragtune.core.policy.batching import propose
from ragtune.core.policy.scaling import tail
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.types import BatchProposal, RemainingBudgetView, StopRecord
from ragtune.schedulers.greedy import BatchScheduler, below_top


class SettledScheduler(BatchScheduler):
    """Greedy batches until no candidate is likely to change the top k any more.

    A candidate that has not been scored would change the top k with the probability that its relevance lies on the
    other side of the top-k threshold (halfway between the keys of ranks k and k + 1) than its place in the current
    order: P(Z > |key - top-k threshold| / deviation), at most one half. The belief is the estimator's; for an estimator
    without one it is `EmpiricalBelief`. A belief covers only the candidates that are in
    the pool: while an expander still brings new ones, nothing is settled.
    """

    def __init__(
        self,
        k: int = 10,
        threshold: float = 0.25,
        min_docs: int = 10,
        batch_size: int = 2,
        acquisition: BaseAcquisition | None = None,
    ) -> None:
        super().__init__(batch_size, acquisition)
        self.k = check_count("scheduler.k", k, low=1)
        self.threshold = check_number("scheduler.threshold", threshold, low=0.0, high=0.5)
        self.min_docs = check_count("scheduler.min_docs", min_docs)

    def select_batch(self, pool: CandidatePool, budget: RemainingBudgetView) -> BatchProposal | StopRecord:
        chance = float(tail(np.abs(below_top(pool, pool.eligible, self.k))).max())  # by the likeliest candidate
        if chance < self.threshold and pool.scored_since_growth >= self.min_docs:
            return StopRecord(
                reason="top_k_settled",
                source="scheduler",
                details={"chance_of_change": round(chance, 6), "threshold": self.threshold, "k": self.k},
            )
        return propose(self.chosen(pool), budget, diagnostics={"chance_of_change": round(chance, 6)})
