"""Graph-based adaptive reranking."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ragtune.core.arrays import IntArray
from ragtune.core.pool.columns import CANDIDATE
from ragtune.core.pool.items import SentBatch
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.context import RAGtuneContext
from ragtune.estimators.graph._neighbours import AlternatingEstimator, AlternationState, Neighbours


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

    def _start(self, neighbours: Neighbours) -> _Gar:
        return _Gar(neighbours)


_Source = tuple[int, float, Sequence[int]]
"""A scored document, which leads to its neighbours: its position, its score and their positions."""


_NOTHING = -math.inf


class _Queue:
    """The neighbour queue of a request that may rerank ``limit`` documents."""

    def __init__(self, limit: float, batches: Sequence[Sequence[_Source]] = ()) -> None:
        self.limit = limit
        self._scores: dict[int, float] = {}  # scored documents stay in it, and nothing is better than they are
        self._lowest = math.inf
        for batch in batches:
            self.feed(batch)

    def feed(self, batch: Sequence[_Source]) -> None:
        """Put the neighbours of a batch into the queue, where they gain by it and can still be reached."""
        scores = self._scores
        scores |= dict.fromkeys([position for position, _, _ in batch], math.inf)
        for _, score, neighbours in batch:
            if len(scores) >= self.limit and score < self._lowest:
                continue
            if better := [i for i in neighbours if scores.get(i, _NOTHING) < score]:
                scores |= dict.fromkeys(better, score)
                self._lowest = min(self._lowest, score)

    def best_first(self, is_open: NDArray[np.bool_]) -> IntArray:
        """The open documents in it."""
        waiting = np.fromiter(self._scores, np.intp, len(self._scores))
        scores = np.fromiter(self._scores.values(), float, len(self._scores))
        kept = is_open[waiting]
        # The sort is stable: equal scores stay in the order of entering.
        order: IntArray = waiting[kept][(-scores[kept]).argsort(kind="stable")]
        return order


class _Gar(AlternationState):
    """The neighbour queue, kept from batch to batch, and made anew where documents have other neighbours since the pool
    has grown.
    """

    def __init__(self, neighbours: Neighbours) -> None:
        super().__init__(neighbours)
        self._fed: list[list[_Source]] = []
        self._queue = _Queue(math.inf)

    def queue(self, pool: CandidatePool, context: RAGtuneContext) -> IntArray:
        if changed := self.neighbours.refresh(pool):
            del self._fed[
                min(n for n, batch in enumerate(self._fed) if any(position in changed for position, _, _ in batch)) :
            ]
        docs = context.tracker.budget.max_reranker_docs
        limit = math.inf if docs is None else docs
        if changed or limit != self._queue.limit:
            self._queue = _Queue(limit, self._fed)
        for batch in pool.batches[len(self._fed) :]:
            self._fed.append(self._sources(pool, batch))
            self._queue.feed(self._fed[-1])
        return self._queue.best_first(pool.states == CANDIDATE)

    def _sources(self, pool: CandidatePool, batch: SentBatch) -> list[_Source]:
        """The scored documents of a batch, best first; equal ones by id, descending: what sorting (score, id) pairs in
        reverse does in the reference.
        """
        doc_ids, found = pool.doc_ids, zip(pool.scores[batch.positions].tolist(), batch.positions.tolist(), strict=True)
        scored = [(score, doc_ids[i], i) for score, i in found if score == score]  # NaN alone differs from itself
        scored.sort(reverse=True)
        edges = self.neighbours.of(pool, [i for _, _, i in scored])
        return [(i, score, edge.positions) for (score, _, i), edge in zip(scored, edges, strict=True)]
