"""Stops when further reranking is unlikely to change the top k."""

from __future__ import annotations

import numpy as np

from ragtune.core.batching import propose, require_batch_size
from ragtune.core.errors import ConfigError
from ragtune.core.interfaces import BaseScheduler
from ragtune.core.pool import CandidatePool
from ragtune.core.types import BatchProposal, RemainingBudgetView, StopRecord
from ragtune.core.valuation import FloatArray

PRIOR_VARIANCE = 0.05
"""Assumed residual variance before any residual is seen; weighs as much as ``PRIOR_COUNT`` observations."""
PRIOR_COUNT = 4


class EarlyStopScheduler(BaseScheduler):
    """Greedy batches until the expected number of candidates that would enter the top k falls under a threshold.

    P(candidate i enters) is the estimator's ``top_k_probability`` where it gives one. Otherwise it is the normal tail
    P(N(mean_i, var_i) > s_k), where s_k is the k-th best rerank score and var_i the estimator's variance, or, for
    estimators without one, the mean squared difference between the priorities and the scores seen so far.

    Args:
        batch_size: documents a batch.
        k: size of the top that matters.
        threshold: expected entrants below which reranking stops; > 0.
        min_docs: documents reranked before stopping is considered; at least ``k`` are needed in any case.

    Raises:
        ConfigError: on an argument out of range.
    """

    def __init__(self, batch_size: int = 5, k: int = 10, threshold: float = 0.5, min_docs: int = 10) -> None:
        self.batch_size = require_batch_size(batch_size)
        if k < 1:
            raise ConfigError(f"scheduler.k={k!r}: allowed is an integer >= 1")
        if not threshold > 0:
            raise ConfigError(f"scheduler.threshold={threshold!r}: allowed is a number > 0")
        if min_docs < 0:
            raise ConfigError(f"scheduler.min_docs={min_docs!r}: allowed is an integer >= 0")
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
        return propose(pool.top_candidates(self.batch_size), budget, diagnostics=diagnostics)

    def _expected_entrants(self, pool: CandidatePool) -> float:
        if len(pool.reranked) < self.min_docs:
            return float("inf")
        eligible = pool.eligible
        if pool.top_k_probability is not None:
            return float(pool.top_k_probability[eligible].sum())
        return float(self._tails(pool)[eligible].sum())

    def _tails(self, pool: CandidatePool) -> FloatArray:
        scores = pool.scores[pool.reranked]
        bar = np.partition(scores, len(scores) - self.k)[len(scores) - self.k]
        variance = _residual_variance(pool) if pool.variance is None else pool.variance
        return _normal_tail((bar - pool.priorities) / np.sqrt(np.maximum(variance, 1e-12)))


def _residual_variance(pool: CandidatePool) -> float:
    residuals = pool.scores[pool.reranked] - pool.priorities[pool.reranked]
    return float((PRIOR_COUNT * PRIOR_VARIANCE + residuals @ residuals) / (PRIOR_COUNT + len(residuals)))


def _normal_tail(z: FloatArray) -> FloatArray:
    from scipy.special import ndtr

    tail: FloatArray = ndtr(-z)
    return tail
