"""The chance to belong to the top k."""

from __future__ import annotations

import numpy as np

from ragtune.core.arguments import check_count
from ragtune.core.arrays import FloatArray
from ragtune.core.interfaces import BaseAcquisition
from ragtune.core.policy.scaling import tail, top_k_threshold
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.pool.valuation import Belief


class TopKProbabilityAcquisition(BaseAcquisition):
    """P(relevance exceeds the top-k threshold, halfway between the keys of ranks k and k + 1 of the current order).

    The threshold is taken as known; only the candidate itself is uncertain (the knowledge-gradient simplification,
    Frazier, Powell and Dayanik 2009).

    Args:
        k: size of the top that matters, >= 1.

    Raises:
        ConfigError: if ``k`` is not a positive integer.
    """

    def __init__(self, k: int = 10) -> None:
        self.k = check_count("acquisition.k", k, low=1)

    def utility(self, belief: Belief, pool: CandidatePool) -> FloatArray:
        threshold = top_k_threshold(belief.key[pool.ranked], self.k)
        return tail((threshold.midpoint - belief.key) / np.sqrt(np.maximum(belief.variance, 1e-12)))
