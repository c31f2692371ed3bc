"""What every acquisition promises (:class:`~ragtune.core.interfaces.BaseAcquisition`)."""

from __future__ import annotations

import numpy as np
import pytest

from ragtune.core.arrays import FloatArray
from ragtune.core.interfaces import BaseAcquisition
from ragtune.core.pool.items import PoolItem
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.pool.valuation import Belief


class KnownBelief(Belief):
    """A belief with a given covariance.

    Args:
        mean: shape (n,); also the key of the final order.
        covariance: shape (n, n).
        noise: variance of a score around the latent relevance.
    """

    def __init__(self, mean: list[float], covariance: FloatArray, noise: float = 0.1) -> None:
        self.mean = np.array(mean, dtype=float)
        self.key = self.mean
        self.noise = noise
        self._covariance = covariance
        self.variance = np.diag(covariance).copy()

    def observing(self, position: int) -> KnownBelief:
        column = self._covariance[:, position]
        shrunk = self._covariance - np.outer(column, column) / (column[position] + self.noise)
        return KnownBelief(self.mean.tolist(), shrunk, self.noise)


class AcquisitionContract:
    """Derive from it and define :meth:`make`."""

    def make(self) -> BaseAcquisition:
        """A new acquisition."""
        raise NotImplementedError

    @pytest.mark.parametrize("n", [1, 2, 3, 4, 30])
    def test_one_finite_number_a_document_the_same_every_time(self, n: int) -> None:
        acquisition = self.make()
        pool = CandidatePool(PoolItem(doc_id=f"d{i}", initial_rank=i, sources={"s": float(-i)}) for i in range(n))
        for belief in (KnownBelief([0.0] * n, np.zeros((n, n))), KnownBelief([float(i) for i in range(n)], np.eye(n))):
            utility = acquisition.utility(belief, pool)
            assert utility.shape == (n,)
            assert np.isfinite(utility).all()
            np.testing.assert_array_equal(utility, acquisition.utility(belief, pool))
            np.testing.assert_array_equal(utility, self.make().utility(belief, pool))
