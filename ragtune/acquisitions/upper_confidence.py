"""Optimism in the face of uncertainty."""

from __future__ import annotations

import numpy as np

from ragtune.core.arrays import FloatArray
from ragtune.core.belief import Belief
from ragtune.core.errors import ConfigError
from ragtune.core.interfaces import BaseAcquisition
from ragtune.core.pool import CandidatePool


class UpperConfidenceAcquisition(BaseAcquisition):
    """mean + kappa * standard deviation (GP-UCB, Srinivas et al., ICML 2010; kappa is their beta^(1/2)).

    Args:
        kappa: weight of the uncertainty, >= 0; 0 is the mean alone.

    Raises:
        ConfigError: if ``kappa`` is negative or not a number.
    """

    def __init__(self, kappa: float = 1.0) -> None:
        if not kappa >= 0:
            raise ConfigError(f"acquisition.kappa={kappa!r}: allowed is a number >= 0")
        self.kappa = kappa

    def utility(self, belief: Belief, pool: CandidatePool) -> FloatArray:
        utility: FloatArray = belief.mean + self.kappa * np.sqrt(belief.variance)
        return utility
