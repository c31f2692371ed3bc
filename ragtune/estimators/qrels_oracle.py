"""Ceiling: knows the judgments beforehand."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ragtune.core.arrays import FloatArray
from ragtune.core.interfaces import BaseEstimator
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.pool.valuation import Valuation
from ragtune.core.request.context import RAGtuneContext


class QrelsOracleEstimator(BaseEstimator):
    """Values a candidate by its judged grade (rule C5), divided by the highest grade of the collection."""

    def __init__(self, qrels: Mapping[str, Mapping[str, int]]) -> None:
        self._qrels = qrels
        self._top = max((grade for grades in qrels.values() for grade in grades.values()), default=1) or 1

    def value(self, pool: CandidatePool, context: RAGtuneContext) -> Valuation:
        grades = self._qrels.get(context.query_id, {})
        mean: FloatArray = np.array([max(0, grades.get(doc_id, 0)) for doc_id in pool.doc_ids], dtype=float)
        mean /= self._top
        return pool.valuation(mean, posterior=mean)
