"""A Gaussian posterior as acquisition functions see it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ragtune.core.arrays import FloatArray
from ragtune.core.pool.belief import Belief
from ragtune.estimators.posterior._factor import next_row
from ragtune.estimators.posterior._posterior import RelevancePosterior


class PosteriorBelief(Belief):
    """The posterior as acquisition functions see it; a snapshot that later updates do not reach."""

    def __init__(self, posterior: RelevancePosterior, key: FloatArray, noise: float) -> None:
        self._covariance = posterior.covariance
        self._factor, self._scored = posterior.factor, posterior.factor.k
        self._supposed: tuple[FloatArray, ...] = ()
        self._raw_variance = posterior.variance
        self.mean = posterior.mean
        self.variance = np.maximum(posterior.variance, 0.0)
        self.key = key
        self.noise = noise

    def observing(self, position: int) -> PosteriorBelief:
        factor = self._factor.having(self._scored, self._supposed)
        row, _ = next_row(position, self._covariance.column(position), factor, self._raw_variance, self.noise)
        variance = self._raw_variance - row * row
        return self._with(_supposed=(*self._supposed, row), _raw_variance=variance, variance=np.maximum(variance, 0.0))

    def _with(self, **changes: Any) -> PosteriorBelief:
        other = PosteriorBelief.__new__(PosteriorBelief)
        other.__dict__ |= self.__dict__ | changes
        return other
