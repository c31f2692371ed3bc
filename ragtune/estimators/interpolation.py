"""Fixed depth's order, interpolated with the first stage's."""

from __future__ import annotations

import numpy as np

from ragtune.core.arguments import check_number
from ragtune.core.arrays import FloatArray
from ragtune.core.interfaces import BaseEstimator
from ragtune.core.policy.scaling import first_stage_scores
from ragtune.core.pool.columns import read_only
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.pool.valuation import Valuation
from ragtune.core.request.context import RAGtuneContext

_CLIP = 1e-6  # scores are kept this far from 0 and 1, so that their logits are finite


class InterpolationEstimator(BaseEstimator):
    """Scores candidates in the first stage's order, and ranks what is scored by both.

    The final key of a scored document is weight * z(first-stage score) + (1 - weight) * z(logit of its score), both
    standardised over the scored documents of the query. The others stand behind, in the first stage's order.
    """

    def __init__(self, weight: float = 0.2) -> None:
        self.weight = check_number("estimator.weight", weight, low=0.0, high=1.0)

    def value(self, pool: CandidatePool, context: RAGtuneContext) -> Valuation:
        first, scored = first_stage_scores(pool), pool.reranked
        key = np.array(first)
        if len(scored):
            clipped = np.clip(pool.scores[scored], _CLIP, 1.0 - _CLIP)
            logits = np.log(clipped / (1.0 - clipped))
            mixed = self.weight * _standardised(first[scored]) + (1.0 - self.weight) * _standardised(logits)
            key += mixed.min() - 2.0  # first-stage scores are in [0, 1]
            key[scored] = mixed
        return pool.valuation(first, posterior=read_only(key))


def _standardised(values: FloatArray) -> FloatArray:
    deviation = float(values.std())
    return (values - values.mean()) / deviation if deviation > 0.0 else np.zeros(len(values))
