"""Exploration by sampling."""

from __future__ import annotations

import zlib

import numpy as np

from ragtune.core.arguments import check_count
from ragtune.core.arrays import FloatArray
from ragtune.core.interfaces import BaseAcquisition
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.pool.valuation import Belief


class ThompsonAcquisition(BaseAcquisition):
    """A draw from each document's marginal posterior (Thompson 1933; Russo et al. 2018).

    The draw depends on the seed, the pool's documents and how many of them have been scored, and on nothing else: the
    same request draws the same numbers in every process.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = check_count("acquisition.seed", seed)

    def utility(self, belief: Belief, pool: CandidatePool) -> FloatArray:
        identity = zlib.crc32("\x00".join(pool.doc_ids).encode())
        rng = np.random.default_rng([self.seed, identity, len(pool.reranked)])
        return belief.mean + np.sqrt(belief.variance) * rng.standard_normal(len(pool))
