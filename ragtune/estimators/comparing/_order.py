"""A Gaussian posterior over the relevance of a pool, conditioned on orders of windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ragtune.core.arrays import FloatArray, IntArray

_STEPS = 50
"""Newton steps at most; a window takes some five."""


@dataclass(frozen=True)
class _Choices:
    """The choices that a window's order consists of.

    Attributes:
        positions: shape (k,), its judged documents.
        chosen: shape (c,), the document of each choice, as an index into ``positions``.
        among: shape (c, k), the documents that it was chosen from, itself included.
    """

    positions: IntArray
    chosen: IntArray
    among: NDArray[np.bool_]

    @classmethod
    def of(cls, tiers: Sequence[Sequence[int]]) -> _Choices:
        """Every document but those of the last tier is chosen from itself and all tiers behind its own."""
        positions = np.array([position for tier in tiers for position in tier], dtype=np.intp)
        level = np.repeat(np.arange(len(tiers)), [len(tier) for tier in tiers])
        chosen = np.flatnonzero(level < len(tiers) - 1)
        among = level[None, :] > level[chosen, None]
        among[np.arange(len(chosen)), chosen] = True
        return cls(positions, chosen, among)

    def shares(self, utility: FloatArray) -> tuple[FloatArray, float]:
        """The probability of every document in every choice, shape (c, k), and what was chosen's log-likelihood."""
        masked = np.where(self.among, utility[self.positions], -np.inf)
        masked = masked - masked.max(axis=1, keepdims=True)
        weights = np.exp(masked)
        totals = weights.sum(axis=1)
        taken = masked[np.arange(len(self.chosen)), self.chosen]
        return weights / totals[:, None], float((taken - np.log(totals)).sum())


class PlackettLucePosterior:
    """Laplace approximation of a Gaussian prior under Plackett-Luce likelihoods (Guiver and Snelson, ICML 2009; for
    Gaussian processes Chu and Ghahramani, ICML 2005).

    A window's order is a sequence of choices: each document is chosen from those that are left with a probability
    proportional to exp(r / temperature). Documents of one tier were not told apart. The log posterior is concave, and
    its mode and curvature are the posterior's mean and covariance.

    Args:
        mean: prior mean of the latent relevance, shape (n,).
        covariance: prior covariance, shape (n, n).
        temperature: scale of the comparer's Gumbel noise, in the unit of the latent relevance, > 0.

    Attributes:
        mean: posterior mean, shape (n,).
        covariance: posterior covariance, shape (n, n).
    """

    def __init__(self, mean: FloatArray, covariance: FloatArray, temperature: float) -> None:
        self._prior_mean, self._prior = mean, covariance
        self._temperature = temperature
        self._windows: list[_Choices] = []
        self._dual = np.zeros(len(mean))  # of the offset from the prior mean, which is the prior covariance times it
        self.mean, self.covariance = mean, covariance

    def learn(self, tiers: Sequence[Sequence[int]]) -> None:
        """Condition on the order of a window, by tiers, best first; a single tier says nothing."""
        if len(tiers) < 2:
            return
        self._windows.append(_Choices.of(tiers))
        value, gradient, curvature = self._at(self._dual)
        for _ in range(_STEPS):
            wanted = self._solved(curvature, curvature @ (self._prior @ self._dual) + gradient)
            step = 1.0
            dual, (after, gradient, curvature) = wanted, self._at(wanted)
            while after < value and step > 1e-4:  # Newton's step overshoots where the likelihood is flat
                step /= 2.0
                dual = self._dual + step * (wanted - self._dual)
                after, gradient, curvature = self._at(dual)
            self._dual = dual
            if after - value < 1e-6:
                break
            value = after
        self.mean = self._prior_mean + self._prior @ self._dual
        covariance = self._prior @ self._solved(curvature, np.eye(len(self.mean)))
        self.covariance = (covariance + covariance.T) / 2.0

    def _solved(self, curvature: FloatArray, right: FloatArray) -> FloatArray:
        """(I + W K)^-1 times ``right``, with the curvature W and the prior covariance K."""
        return np.asarray(np.linalg.solve(np.eye(len(curvature)) + curvature @ self._prior, right), dtype=np.float64)

    def _at(self, dual: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """The log posterior there, up to a constant, and gradient and negative Hessian of its likelihood."""
        offset = self._prior @ dual
        utility = (self._prior_mean + offset) / self._temperature
        value = -0.5 * float(dual @ offset)
        gradient, curvature = np.zeros(len(dual)), np.zeros((len(dual), len(dual)))
        for window in self._windows:
            shares, likelihood = window.shares(utility)
            value += likelihood
            at = window.positions
            pull = -shares.sum(axis=0)
            pull[window.chosen] += 1.0
            gradient[at] += pull / self._temperature
            curvature[np.ix_(at, at)] += (np.diag(shares.sum(axis=0)) - shares.T @ shares) / self._temperature**2
        return value, gradient, curvature
