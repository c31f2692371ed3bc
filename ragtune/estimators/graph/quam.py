"""Query affinity modelling."""

from __future__ import annotations

import numpy as np

from ragtune.core.arguments import check_count
from ragtune.core.arrays import FloatArray, IntArray
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.context import RAGtuneContext
from ragtune.data.corpus import Corpus
from ragtune.estimators.graph._neighbours import AlternatingEstimator, Alternation, MakeVectors, joined


class QuamEstimator(AlternatingEstimator):
    """Quam (Rathee, MacAvaney and Anand, "Quam: Adaptive Retrieval through Query Affinity Modelling", WSDM 2025).

    As GAR, batches come by turns from the initial ranking and from the neighbour queue; but a document d of the queue
    is valued by its set affinity to the best documents scored so far,

        SetAff(d, S) = sum over d' in S of f(d, d') R(d'),    R(d') = p(d') / sum over S of p,

    so that many good neighbours count for more than one. R is the paper's softmax of the reranker's scores, where
    these are log probabilities, as monoT5's are.

    Differences: the paper learns the affinity f by fine-tuning a model (LAFF); none can be had here, so f is the
    graph's edge weight, or the text cosine where there is no graph. SetAff is computed from S as it stands, as the
    paper's equation says; its code adds up the increments of earlier sets. Equal affinities go by the pool's order.

    The paper's symbols: b is the scheduler's ``batch_size``, c ``budget.max_reranker_docs``, s ``top_s``, G ``graph``,
    k ``k``.
    """

    def __init__(
        self, corpus: Corpus, vectors: MakeVectors, k: int = 16, graph: str | None = None, top_s: int = 30
    ) -> None:
        super().__init__(corpus, vectors, k, graph)
        self.top_s = check_count("estimator.top_s", top_s, low=1)

    def queue(self, pool: CandidatePool, context: RAGtuneContext, state: Alternation) -> IntArray:
        reranked = pool.reranked
        best = reranked[np.argsort(-pool.scores[reranked], kind="stable")[: self.top_s]].tolist()
        to, weights, by = joined(state.neighbours.of(pool, best))
        affinity = np.bincount(to, weights * _shares(pool.scores[best])[by], len(pool))
        reached = np.bincount(to, minlength=len(pool)) > 0
        open_ones = pool.eligible[reached[pool.eligible]]
        return open_ones[np.argsort(-affinity[open_ones], kind="stable")]


def _shares(scores: FloatArray) -> FloatArray:
    positive = np.maximum(scores, 0.0)
    total = float(positive.sum())
    return positive / total if total > 0 else np.full(len(scores), 1.0 / max(1, len(scores)))
