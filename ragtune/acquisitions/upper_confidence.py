"""Optimism in the face of uncertainty."""

from __future__ import annotations

import numpy as np

from ragtune.core.arguments import check_number
from ragtune.core.arrays import FloatArray
from ragtune.core.interfaces import BaseAcquisition
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.pool.valuation import Belief


class UpperConfidenceAcquisition(BaseAcquisition):
    """mean + kappa * standard deviation (GP-UCB, Srinivas et al., ICML 2010; kappa is their beta^(1/2))."""

    def __init__(self, kappa: float = 2.0) -> None:
        self.kappa = check_number("acquisition.kappa", kappa, low=0.0)

    def utility(self, belief: Belief, pool: CandidatePool) -> FloatArray:
        return belief.mean + self.kappa * np.sqrt(belief.variance)
