"""Graph-based adaptive reranking."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ragtune.core.arrays import IntArray
from ragtune.core.pool.columns import CANDIDATE
from ragtune.core.pool.items import SentBatch
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.context import RAGtuneContext
from ragtune.estimators.graph._neighbours import AlternatingEstimator, Alternation


@dataclass
class _Gar(Alternation):
    """The neighbour queue, kept from batch to batch, and made anew where the pool has grown or the budget differs."""

    def __post_init__(self) -> None:
        self._begin(0, math.inf)

    def _begin(self, size: int, limit: float) -> None:
        self._made_for = size, limit
        self._fed = 0
        self._scores: dict[int, float] = {}  # scored documents stay in it, and nothing is better than they are
        self._lowest = math.inf

    def queue(self, pool: CandidatePool, context: RAGtuneContext) -> IntArray:
        docs = context.tracker.budget.max_reranker_docs
        limit = math.inf if docs is None else docs
        if self._made_for != (len(pool), limit):
            self._begin(len(pool), limit)
        for batch in pool.batches[self._fed :]:
            self._feed(pool, batch, limit)
        self._fed = len(pool.batches)
        waiting = np.fromiter(self._scores, np.intp, len(self._scores))
        scores = np.fromiter(self._scores.values(), float, len(self._scores))
        is_open = (pool.states == CANDIDATE)[waiting]
        # The sort is stable: equal scores stay in the order of entering.
        order: IntArray = waiting[is_open][(-scores[is_open]).argsort(kind="stable")]
        return order

    def _feed(self, pool: CandidatePool, batch: SentBatch, limit: float) -> None:
        """Queue a batch's neighbours that gain by it and can still be reached; equal ones by id, descending."""
        known = zip(pool.scores[batch.positions].tolist(), batch.positions.tolist(), strict=True)
        scored = sorted(((score, pool.doc_ids[i], i) for score, i in known if not math.isnan(score)), reverse=True)
        sources = [i for _, _, i in scored]
        self._scores |= dict.fromkeys(sources, math.inf)
        for (score, _, _), edges in zip(scored, self.neighbours.of(pool, sources), strict=True):
            if len(self._scores) >= limit and score < self._lowest:
                continue
            if better := [i for i in edges.positions if self._scores.get(i, -math.inf) < score]:
                self._scores |= dict.fromkeys(better, score)
                self._lowest = min(self._lowest, score)


class GAREstimator(AlternatingEstimator):
    """GAR (MacAvaney, Tonellotto and Macdonald, "Adaptive Re-Ranking with a Corpus Graph", CIKM 2022, algorithm 1).

    Batches come by turns from the initial ranking R0 and from the neighbour queue (the paper's frontier F of the corpus
    graph G): the neighbours of what has been scored, each with the score of the best document that led to it. A source
    that has run dry is passed over, and a batch never mixes sources. The order is that of the authors' implementation
    (pyterrier-adaptive 0.2.1), tie for tie: equal scores go by when a document entered the queue, so nearer neighbours
    come first, and the queue is not fed with what the remaining budget could never reach. That may change the order of
    equal scores, so a budget is read.

    With ``expander=none`` it works inside the pool. To let it leave the pool, give the same graph to
    ``expander=corpus_graph`` with ``expander.top=null``: documents that only the graph found are reachable through the
    neighbour queue alone.

    The paper's symbols: R0 is the pool's order, b the scheduler's ``batch_size`` (``scheduler=greedy``), c
    ``budget.max_reranker_docs``, G ``graph``, k ``k``; the final order is ``assembler.ordering=reranked_first``
    (R1, then R0 as backfill).
    """

    state = _Gar

    def queue(self, pool: CandidatePool, context: RAGtuneContext, state: _Gar) -> IntArray:
        return state.queue(pool, context)
