"""Fixed depth whose final order also counts the first stage's scores."""

from __future__ import annotations

import numpy as np

from ragtune.core.arguments import check_number
from ragtune.core.arrays import FloatArray
from ragtune.core.interfaces import BaseEstimator
from ragtune.core.policy.scaling import logits, standardised
from ragtune.core.pool.columns import read_only
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.pool.valuation import Valuation
from ragtune.core.request.context import RAGtuneContext

WEIGHT = 0.2
"""Of the first stage, the default."""


class InterpolationEstimator(BaseEstimator):
    """Values candidates by the first stage's scores, and ranks scored ones by both scores.

    The ranking key of a scored document is weight * z(first-stage score) + (1 - weight) * z(logit of its score), both
    standardised over the scored documents of the query. Documents without a score stand behind, in the first stage's
    order. Source: Wang et al., "BERT-based Dense Retrievers Require Interpolation with BM25" (ICTIR 2021).
    A weight of 0 gives the order of fixed depth.
    """

    def __init__(self, weight: float = WEIGHT) -> None:
        self.weight = check_number("estimator.weight", weight, low=0.0, high=1.0)

    def value(self, pool: CandidatePool, context: RAGtuneContext) -> Valuation:
        first = pool.roster.first_stage_scores
        return pool.valuation(first, posterior=read_only(interpolated(first, pool.scores, self.weight)))


def interpolated(first: FloatArray, scores: FloatArray, weight: float) -> FloatArray:
    """Ranking keys of n documents from first-stage scores and scores in [0, 1], NaN where there is none; shape (n,)."""
    keys, scored = np.array(first), ~np.isnan(scores)
    if scored.any():
        mixed = weight * standardised(first[scored]) + (1.0 - weight) * standardised(logits(scores[scored]))
        keys += mixed.min() - 1.0 - first.max()  # the others stand behind
        keys[scored] = mixed
    return keys
