"""Stops when further reranking is unlikely to change the top k."""

from __future__ import annotations

import numpy as np

from ragtune.core.arguments import check_count, check_number
from ragtune.core.interfaces import BaseAcquisition, BaseScheduler
from ragtune.core.policy.batching import choose, propose
from ragtune.core.policy.gaussian import tail
from ragtune.core.policy.top_k import top_k_bar
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.types import BatchProposal, RemainingBudgetView, StopRecord


class EarlyStopScheduler(BaseScheduler):
    """Greedy batches until no candidate is likely to change the top k any more.

    A candidate not yet scored would change the top k with the probability that its relevance lies on the other side of
    the border between ranks k and k + 1 than its place in the current order: P(Z > |key - border| / deviation), at most
    one half. The belief is the estimator's; for an estimator without one,
    :class:`ragtune.core.pool.belief.EmpiricalBelief`. It knows only the candidates that are there: while an expander
    still brings new ones, nothing is settled.

    Args:
        batch_size: documents a batch.
        acquisition, diverse: how batches are chosen, as in the greedy scheduler.
        k: size of the top that matters.
        threshold: chance in [0, 0.5] that is still worth a document; reranking stops once all are below.
        min_docs: documents reranked since the pool last grew, before stopping is considered.

    Raises:
        ConfigError: on an argument out of range.
    """

    def __init__(
        self,
        batch_size: int = 2,
        acquisition: BaseAcquisition | None = None,
        diverse: bool = True,
        k: int = 10,
        threshold: float = 0.4,
        min_docs: int = 10,
    ) -> None:
        self.batch_size = check_count("scheduler.batch_size", batch_size, low=1)
        self.acquisition = acquisition
        self.diverse = diverse
        self.k = check_count("scheduler.k", k, low=1)
        self.threshold = check_number("scheduler.threshold", threshold, low=0.0, high=0.5)
        self.min_docs = check_count("scheduler.min_docs", min_docs)

    def select_batch(self, pool: CandidatePool, budget: RemainingBudgetView) -> BatchProposal | StopRecord:
        chance = self._chance_of_change(pool)
        if chance < self.threshold and pool.scored_since_growth >= self.min_docs:
            return StopRecord(
                reason="top_k_settled",
                source="scheduler",
                details={"chance_of_change": round(chance, 6), "threshold": self.threshold, "k": self.k},
            )
        wish = choose(pool, self.batch_size, self.acquisition, diverse=self.diverse)
        return propose(wish, budget, diagnostics={"chance_of_change": round(chance, 6)})

    def _chance_of_change(self, pool: CandidatePool) -> float:
        """The likeliest change that scoring one more candidate would bring."""
        belief = pool.belief_or_empirical()
        border = top_k_bar(belief.key[pool.active], self.k).midpoint
        eligible = pool.eligible
        deviation = np.sqrt(np.maximum(belief.variance[eligible], 1e-12))
        return float(tail(np.abs(belief.key[eligible] - border) / deviation).max())
