"""What is believed of every document's relevance, for acquisition functions and stopping rules."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ragtune.core.arrays import FloatArray


class Belief(ABC):
    """A Gaussian belief about the latent relevance of every document of the pool, arrays of shape (n,).

    Attributes:
        mean: expected latent relevance; any scale, the same for all documents.
        variance: of the latent relevance; never negative.
        key: what the final list would be ordered by if reranking stopped now.
        noise: variance of one rerank score around the latent relevance.
    """

    mean: FloatArray
    variance: FloatArray
    key: FloatArray
    noise: float

    @abstractmethod
    def gain(self, latent: FloatArray) -> FloatArray:
        """Relevance in [0, 1], the rerankers' scale, that a latent relevance means; increasing, elementwise."""

    @abstractmethod
    def observing(self, position: int) -> Belief:
        """This belief as if the document at ``position`` had been scored as expected: means stay, variances shrink."""
