"""What is believed of every document's relevance, for acquisition functions and stopping rules."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from ragtune.core.arrays import FloatArray

PRIOR_VARIANCE = 0.05
"""Variance of an estimate on the score scale before any score has shown how good the estimates are."""

PRIOR_COUNT = 4
"""Number of observed residuals that weigh as much as :data:`PRIOR_VARIANCE`."""


class Belief(ABC):
    """A Gaussian belief about the latent relevance of every document of the pool, arrays of shape (n,).

    Attributes:
        mean: expected latent relevance; any scale, the same for all documents.
        variance: variance of the latent relevance; never negative.
        key: key by which the final list would be ordered if reranking stopped now.
        noise: variance of one rerank score around the latent relevance.
    """

    mean: FloatArray
    variance: FloatArray
    key: FloatArray
    noise: float

    @abstractmethod
    def observing(self, position: int) -> Belief:
        """This belief as if the document at ``position`` had been scored as expected: means stay, variances shrink."""


class EmpiricalBelief(Belief):
    """The belief that follows from an estimator's bare opinions: they err as much as they have erred so far.

    Latent relevance is the score itself. Scored documents are certain; for the others the mean is the priority and the
    variance the mean squared difference between priorities and scores, shrunk towards :data:`PRIOR_VARIANCE`.

    Args:
        priorities: shape (n,), the priority of each document; for a scored one, that which it had when chosen.
        scores: shape (n,), NaN where not reranked.
    """

    noise = 0.0

    def __init__(self, priorities: FloatArray, scores: FloatArray) -> None:
        scored = ~np.isnan(scores)
        residuals = scores[scored] - priorities[scored]
        error = (PRIOR_COUNT * PRIOR_VARIANCE + float(residuals @ residuals)) / (PRIOR_COUNT + len(residuals))
        self.mean = np.where(scored, scores, priorities)
        self.variance = np.where(scored, 0.0, error)
        self.key = self.mean

    def observing(self, position: int) -> EmpiricalBelief:
        after = EmpiricalBelief.__new__(EmpiricalBelief)
        after.mean, after.key = self.mean, self.key
        after.variance = self.variance.copy()
        after.variance[position] = 0.0
        return after
