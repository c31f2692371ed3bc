"""The expected change of nDCG@k by one more score."""

from __future__ import annotations

import numpy as np

from ragtune.core.arrays import FloatArray, IntArray
from ragtune.core.belief import Belief
from ragtune.core.border import require_k, top_k_bar
from ragtune.core.gaussian import expected_excess
from ragtune.core.interfaces import BaseAcquisition
from ragtune.core.pool import CandidatePool

_STEP = 1e-3


class ExpectedGainAcquisition(BaseAcquisition):
    """Value of information in units of nDCG@k (knowledge gradient, Frazier, Powell and Dayanik 2009).

    Scoring document i moves its mean by N(0, v_i^2 / (v_i + noise)), v_i its variance. Only a move across the border
    of the top k changes what the user gets: upwards for a document outside, downwards for one inside. The expected
    size of that change in latent relevance becomes nDCG by the slope of the gain at the border, the mean discount of
    the top k, and the DCG that the current order is expected to have.

    Args:
        k: cut-off of nDCG, >= 1.

    Raises:
        ConfigError: if ``k`` is not a positive integer.
    """

    def __init__(self, k: int = 10) -> None:
        self.k = require_k(k)

    def utility(self, belief: Belief, pool: CandidatePool) -> FloatArray:
        active = pool.active
        if not len(active):
            return np.zeros(len(pool))
        bar = top_k_bar(belief.key[active], self.k)
        inside = belief.key >= bar.inside
        gap = np.where(inside, belief.key - bar.outside, bar.inside - belief.key)
        deviation = belief.variance / np.sqrt(belief.variance + belief.noise)
        utility: FloatArray = expected_excess(gap, deviation) * self._ndcg_per_latent(belief, active, bar.midpoint)
        return utility

    def _ndcg_per_latent(self, belief: Belief, active: IntArray, border: float) -> float:
        discounts = 1.0 / np.log2(2.0 + np.arange(min(self.k, len(active))))
        best = np.sort(belief.gain(belief.mean[active]))[::-1][: len(discounts)]
        around = belief.gain(np.array([border - _STEP, border + _STEP]))
        slope = float(around[1] - around[0]) / (2.0 * _STEP)
        return slope * float(discounts.mean()) / max(float(discounts @ best), 1e-9)
