"""Requests as retrieval leaves them, before any policy has its say."""

from __future__ import annotations

import numpy as np

from experiments.replay.build import Session
from ragtune.core.arrays import FloatArray, IntArray
from ragtune.core.pool.valuation import unknown
from ragtune.core.request.request import Request


class Begun:
    """A request as retrieval leaves it, whatever its policy, and the scores that any policy has asked for.

    Args:
        session: the collection, its first stage and its reranker.
        query_id: id of the query.

    Raises:
        InputError: if a component does.
    """

    def __init__(self, session: Session, query_id: str) -> None:
        text = session.dataset.queries[query_id]
        self.pool, self.context = session.controller.begin(Request(text, query_id))
        self.doc_ids = list(self.pool.doc_ids)
        self.strategy, self.reranker = next(iter(session.rerankers.items()))
        self._scores = unknown(len(self.doc_ids)).copy()

    def scores_of(self, positions: IntArray) -> FloatArray:
        """Scores of the documents at these positions in the pool; the reranker is asked for those not known yet.

        Raises:
            InputError: if a score is missing.
        """
        found = self._scores[positions]
        unknown = np.isnan(found)
        if unknown.any():
            new = positions[unknown]
            doc_ids = list(map(self.doc_ids.__getitem__, new.tolist()))
            said = self.reranker.scores_of(doc_ids, self.context)
            self._scores[new] = np.fromiter(map(said.__getitem__, doc_ids), float, len(doc_ids))
            found = self._scores[positions]
        return found
