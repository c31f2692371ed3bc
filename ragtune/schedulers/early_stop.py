"""Stops when further reranking is unlikely to change the top k."""

from __future__ import annotations

import numpy as np

from ragtune.core.arrays import FloatArray
from ragtune.core.batching import choose, propose, require_batch_size
from ragtune.core.belief import Belief
from ragtune.core.border import top_k_bar
from ragtune.core.errors import ConfigError
from ragtune.core.gaussian import tail
from ragtune.core.interfaces import BaseAcquisition, BaseScheduler
from ragtune.core.pool import CandidatePool
from ragtune.core.types import BatchProposal, RemainingBudgetView, StopRecord

PRIOR_VARIANCE = 0.05
"""Assumed residual variance before any residual is seen; weighs as much as ``PRIOR_COUNT`` observations."""
PRIOR_COUNT = 4


class EarlyStopScheduler(BaseScheduler):
    """Greedy batches until the expected number of candidates that would enter the top k falls under a threshold.

    Where the estimator gives a belief, candidate i enters with P(N(key_i, variance_i) > key of rank k), whatever fills
    the top k now. Otherwise with P(N(mean_i, variance_i) > s_k), s_k the k-th best rerank score and variance_i the
    estimator's or, for estimators without one, the mean squared difference between priorities and scores so far.

    Args:
        batch_size: documents a batch.
        acquisition, diverse: how batches are chosen, as in the greedy scheduler.
        k: size of the top that matters.
        threshold: expected entrants below which reranking stops; > 0.
        min_docs: documents reranked before stopping is considered; at least ``k`` are needed in any case.

    Raises:
        ConfigError: on an argument out of range.
    """

    def __init__(
        self,
        batch_size: int = 2,
        acquisition: BaseAcquisition | None = None,
        diverse: bool = True,
        k: int = 10,
        threshold: float = 0.5,
        min_docs: int = 10,
    ) -> None:
        self.batch_size = require_batch_size(batch_size)
        if k < 1:
            raise ConfigError(f"scheduler.k={k!r}: allowed is an integer >= 1")
        if not threshold > 0:
            raise ConfigError(f"scheduler.threshold={threshold!r}: allowed is a number > 0")
        if min_docs < 0:
            raise ConfigError(f"scheduler.min_docs={min_docs!r}: allowed is an integer >= 0")
        self.acquisition = acquisition
        self.diverse = diverse
        self.k = k
        self.threshold = threshold
        self.min_docs = max(min_docs, k)

    def select_batch(self, pool: CandidatePool, budget: RemainingBudgetView) -> BatchProposal | StopRecord:
        expected = self._expected_entrants(pool)
        if expected < self.threshold:
            return StopRecord(
                reason="top_k_settled",
                source="scheduler",
                details={"expected_entrants": round(expected, 6), "threshold": self.threshold, "k": self.k},
            )
        diagnostics = {"expected_entrants": round(expected, 6)} if np.isfinite(expected) else {}
        return propose(
            choose(pool, self.batch_size, self.acquisition, diverse=self.diverse), budget, diagnostics=diagnostics
        )

    def _expected_entrants(self, pool: CandidatePool) -> float:
        if len(pool.reranked) < self.min_docs:
            return float("inf")
        z = self._by_scores(pool) if pool.belief is None else self._by_belief(pool, pool.belief)
        return float(tail(z).sum())

    def _by_belief(self, pool: CandidatePool, belief: Belief) -> FloatArray:
        bar = top_k_bar(belief.key[pool.active], self.k).inside
        open_positions = pool.eligible[belief.key[pool.eligible] < bar]
        return _standardised_gap(bar, belief.key[open_positions], belief.variance[open_positions])

    def _by_scores(self, pool: CandidatePool) -> FloatArray:
        scores = pool.scores[pool.reranked]
        bar = np.partition(scores, len(scores) - self.k)[len(scores) - self.k]
        variance = np.full(len(pool), _residual_variance(pool)) if pool.variance is None else pool.variance
        open_positions = pool.eligible
        return _standardised_gap(bar, pool.priorities[open_positions], variance[open_positions])


def _standardised_gap(bar: float, mean: FloatArray, variance: FloatArray) -> FloatArray:
    gap: FloatArray = (bar - mean) / np.sqrt(np.maximum(variance, 1e-12))
    return gap


def _residual_variance(pool: CandidatePool) -> float:
    residuals = pool.scores[pool.reranked] - pool.priorities[pool.reranked]
    return float((PRIOR_COUNT * PRIOR_VARIANCE + residuals @ residuals) / (PRIOR_COUNT + len(residuals)))
