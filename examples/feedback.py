"""A policy of one's own: what `own_policy.py` and its notebook are about."""

import numpy as np

from ragtune.core.interfaces import BaseEstimator
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.pool.valuation import Valuation
from ragtune.core.request.context import RAGtuneContext
from ragtune.data.text import terms


class FeedbackEstimator(BaseEstimator):
    """The mean of a document's first-stage score and of the share of its terms that the best documents so far have.

    Args:
        best: reranked documents that count as the best, >= 1.
    """

    def __init__(self, best: int = 3) -> None:
        self.best = best

    def value(self, pool: CandidatePool, context: RAGtuneContext) -> Valuation:
        first = pool.roster.first_stage_scores
        if not len(pool.reranked):
            return pool.valuation(first)
        order = pool.reranked[np.argsort(-pool.scores[pool.reranked], kind="stable")]
        words = [set(terms(entry.content)) for entry in pool.entries]
        good = set().union(*(words[position] for position in order[: self.best]))
        shared = np.array([len(own & good) / max(len(own), 1) for own in words])
        return pool.valuation(np.clip((first + shared) / 2, 0.0, 1.0))
