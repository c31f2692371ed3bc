"""The expected change of nDCG@k by one more score."""

from __future__ import annotations

import numpy as np

from ragtune.core.arguments import check_count
from ragtune.core.arrays import FloatArray
from ragtune.core.interfaces import BaseAcquisition
from ragtune.core.policy.gaussian import expected_excess
from ragtune.core.policy.top_k import top_k_threshold
from ragtune.core.pool.belief import Belief
from ragtune.core.pool.pool import CandidatePool


class ExpectedGainAcquisition(BaseAcquisition):
    """Value of information in units of nDCG@k (knowledge gradient, Frazier, Powell and Dayanik 2009).

    Scoring document i moves its mean by N(0, v_i^2 / (v_i + noise)), v_i its variance. Only a move across the
    top-k threshold changes what the user gets: upwards for a document outside, downwards for one inside. The expected
    size of that change in latent relevance becomes nDCG by taking gain as linear between the worst and the best
    document of the pool, times the mean discount of the top k, over the DCG that the current order is expected to have.

    Args:
        k: cut-off of nDCG, >= 1.

    Raises:
        ConfigError: if ``k`` is not a positive integer.
    """

    def __init__(self, k: int = 10) -> None:
        self.k = check_count("acquisition.k", k, low=1)

    def utility(self, belief: Belief, pool: CandidatePool) -> FloatArray:
        active = pool.ranked
        if not len(active):
            return np.zeros(len(pool))
        threshold = top_k_threshold(belief.key[active], self.k)
        inside = belief.key >= threshold.inside
        gap = np.where(inside, belief.key - threshold.outside, threshold.inside - belief.key)
        deviation = belief.variance / np.sqrt(np.maximum(belief.variance + belief.noise, 1e-12))
        utility: FloatArray = expected_excess(gap, deviation) * self._ndcg_per_latent(belief.key[active])
        return utility

    def _ndcg_per_latent(self, keys: FloatArray) -> float:
        low, high = float(keys.min()), float(keys.max())
        if high <= low:
            return 0.0
        discounts = 1.0 / np.log2(2.0 + np.arange(min(self.k, len(keys))))
        best = np.sort(keys)[::-1][: len(discounts)]
        return float(discounts.mean() / max(discounts @ (best - low), 1e-9))
