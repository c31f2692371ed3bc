"""Exploitation only."""

from __future__ import annotations

from ragtune.core.arrays import FloatArray
from ragtune.core.interfaces import BaseAcquisition
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.pool.valuation import Belief


class MeanAcquisition(BaseAcquisition):
    """Expected relevance: score what is believed best."""

    def utility(self, belief: Belief, pool: CandidatePool) -> FloatArray:
        return belief.mean
