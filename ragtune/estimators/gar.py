"""Graph-based adaptive reranking."""

from __future__ import annotations

import math

import numpy as np

from ragtune.core.arrays import IntArray
from ragtune.core.pool.columns import CANDIDATE
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.context import RAGtuneContext
from ragtune.estimators._alternation import AlternatingEstimator, AlternationState
from ragtune.estimators._neighbours import Neighbours


class GAREstimator(AlternatingEstimator):
    """GAR (MacAvaney, Tonellotto and Macdonald, "Adaptive Re-Ranking with a Corpus Graph", CIKM 2022, algorithm 1).

    Batches come by turns from the initial ranking R0 and from the neighbour queue (the paper's frontier F of the corpus
    graph G): the neighbours of what has been scored, each with the score of the best document that led to it. A source
    that has run dry is passed over, and a batch never mixes sources. The order is that of the authors' implementation
    (pyterrier-adaptive 0.2.1), tie for tie: equal scores go by when a document entered the queue, so nearer neighbours
    come first, and the queue is not fed with what the remaining budget could never reach.

    With ``expander=none`` it works inside the pool. To let it leave the pool, give the same graph to
    ``expander=corpus_graph`` with ``expander.top=null``: documents that only the graph found are reachable through the
    neighbour queue alone.

    The paper's symbols: R0 is the pool's order, b the scheduler's ``batch_size`` (``scheduler=greedy``), c
    ``budget.max_reranker_docs``, G ``graph``, k ``k``; the final order is ``assembler.ordering=reranked_first``
    (R1, then R0 as backfill).

    Args:
        corpus: collection that ``vectors`` and ``graph`` are made from.
        vectors: makes the text vectors of the corpus; used where there is no graph.
        k: neighbours of a document.
        graph: folder of a corpus graph; None takes the k nearest documents of the pool by text.

    Raises:
        ConfigError: on an argument out of range, or a graph that cannot be used.
    """

    def _start(self, neighbours: Neighbours) -> AlternationState:
        return _Gar(neighbours)


_NOTHING = -math.inf


class _Gar(AlternationState):
    """The neighbour queue, kept from batch to batch, and made anew from the first batch whose documents have other
    neighbours since the pool has grown.
    """

    def __init__(self, neighbours: Neighbours) -> None:
        super().__init__(neighbours)
        self._queue: dict[int, float] = {}  # scored documents stay in it, and nothing is better than they are
        self._lowest = math.inf
        self._scored: dict[int, int] = {}  # the batch of each scored document
        self._before: list[tuple[dict[int, float], float]] = []  # queue and lowest score before each batch

    def queue(self, pool: CandidatePool, context: RAGtuneContext) -> IntArray:
        if changed := self.neighbours.refresh(pool):
            self._rewind(min(self._scored[position] for position in changed))
        limit = context.tracker.budget.max_reranker_docs
        for batch in pool.batches[len(self._before) :]:
            scored = batch.positions[~np.isnan(pool.scores[batch.positions])]
            self._before.append((self._queue.copy(), self._lowest))
            self._feed(pool, scored, math.inf if limit is None else limit)
        waiting = np.fromiter(self._queue, np.intp, len(self._queue))
        scores = np.fromiter(self._queue.values(), float, len(self._queue))
        is_open = pool.states[waiting] == CANDIDATE
        # The sort is stable: equal scores stay in the order of entering.
        best_first: IntArray = waiting[is_open][np.argsort(-scores[is_open], kind="stable")]
        return best_first

    def _rewind(self, batch: int) -> None:
        """Go back to how things stood before that batch."""
        self._queue, self._lowest = self._before[batch]
        del self._before[batch:]
        self._scored = {position: number for position, number in self._scored.items() if number < batch}

    def _feed(self, pool: CandidatePool, batch: IntArray, limit: float) -> None:
        positions: list[int] = batch.tolist()
        self._scored |= dict.fromkeys(positions, len(self._before) - 1)
        self._queue |= dict.fromkeys(positions, math.inf)
        edges = dict(zip(positions, self.neighbours.of(pool, positions), strict=True))
        scored = {position: float(pool.scores[position]) for position in positions}
        # Equal scores by id, descending: what sorting (score, id) pairs in reverse does in the reference.
        for position in sorted(positions, key=lambda i: (scored[i], pool.doc_ids[i]), reverse=True):
            score = scored[position]
            if len(self._queue) >= limit and score < self._lowest:
                continue
            if self._reach(edges[position].positions, score):
                self._lowest = min(self._lowest, score)

    def _reach(self, neighbours: list[int], score: float) -> bool:
        """Put the neighbours into the queue; whether any of them gained by it."""
        known = self._queue.get
        better = [i for i in neighbours if known(i, _NOTHING) < score]
        self._queue |= dict.fromkeys(better, score)
        return bool(better)
