"""Reranker-guided search."""

from __future__ import annotations

import numpy as np

from ragtune.core.arguments import check_count
from ragtune.core.arrays import FloatArray, IntArray
from ragtune.core.pool.columns import CANDIDATE
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.pool.valuation import Valuation
from ragtune.core.request.context import RAGtuneContext
from ragtune.data.corpus import Corpus
from ragtune.estimators.graph._neighbours import GraphEstimator, MakeVectors, Neighbours


class RGSEstimator(GraphEstimator):
    """RGS (Xu and Chen, "Beyond Sequential Reranking: Reranker-Guided Search Improves Reasoning Intensive Retrieval",
    ICLR 2026, arXiv 2509.07163): greedy best-first search on a document graph, led by the reranker.

    It begins with the first stage's best document. Then, again and again, the best document by the reranker that is not
    expanded yet is expanded: all its neighbours are scored and take their places. Only the ``length`` best may be
    expanded. A batch holds neighbours of one document, so ``scheduler.batch_size`` should be no smaller than ``k``.

    Differences: the paper's graph is DiskANN's, pruned for search; here it is the k nearest neighbours. Its reranker is
    listwise and reorders windows of the list; here the order is that of the scores, each document is scored once, and
    the expansion that the budget cuts short is the last. Where nothing is left to expand, the paper ends; here the
    first stage's next document begins another search, so that the whole budget is spent. Equal scores go by the pool's
    order.

    With ``expander=none`` it works inside the pool. To let it leave the pool, give the same graph to
    ``expander=corpus_graph`` with ``expander.top=null``.

    The paper's symbols: s is the first of ``seeds``, R is ``k``, L ``length``, the budget ``budget.max_reranker_docs``.
    """

    def __init__(
        self,
        corpus: Corpus,
        vectors: MakeVectors,
        k: int = 16,
        graph: str | None = None,
        seeds: int = 1,
        length: int | None = 100,
    ) -> None:
        super().__init__(corpus, vectors, k, graph)
        self.seeds = check_count("estimator.seeds", seeds, low=1)
        self.length = None if length is None else check_count("estimator.length", length, low=1)

    def value(self, pool: CandidatePool, context: RAGtuneContext) -> Valuation:
        frontier = self._frontier(pool, context.remember(self, self._neighbours))
        eligible = pool.eligible
        left = np.ones(len(pool), dtype=bool)
        left[frontier] = False
        rest = eligible[left[eligible]]
        discovered = pool.discovered[rest]
        order = np.concatenate([frontier, rest[~discovered], rest[discovered]]).astype(np.intp)
        acquisition: FloatArray = np.zeros(len(pool))
        acquisition[order] = 1.0 - np.arange(len(order)) / max(1, len(order))
        return pool.valuation(
            pool.roster.first_stage_scores, acquisition=acquisition, batch_limit=len(frontier) or self.seeds
        )

    def _frontier(self, pool: CandidatePool, neighbours: Neighbours) -> IntArray:
        """The open neighbours of the best document that has any, nearest first: all others are expanded."""
        reranked = pool.reranked
        best: IntArray = reranked[np.argsort(-pool.scores[reranked], kind="stable")[: self.length]]
        for position in best.tolist():
            near = np.array(neighbours.of(pool, [position])[0].positions, dtype=np.intp)
            is_open: IntArray = near[pool.states[near] == CANDIDATE]
            if len(is_open):
                return is_open
        return np.empty(0, dtype=np.intp)
