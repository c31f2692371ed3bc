"""Online relevance estimation."""

from __future__ import annotations

import numpy as np

from ragtune.core.arguments import check_count, check_number
from ragtune.core.arrays import FloatArray, IntArray
from ragtune.core.policy.scaling import scores_by_stage
from ragtune.core.pool.columns import unit_interval
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.pool.valuation import Valuation
from ragtune.core.request.context import GRAPH_SOURCE, RAGtuneContext
from ragtune.data.corpus import Corpus
from ragtune.estimators.graph._neighbours import GraphEstimator, MakeVectors, Neighbours, joined


class OREEstimator(GraphEstimator):
    """ORE (Rathee, Venktesh, MacAvaney and Anand, "Breaking the Lens of the Telescope: Online Relevance Estimation
    over Large Retrieval Sets", SIGIR 2025): a linear bandit whose arms are the documents of the pool.

    EstRel(d) = w . x(d), with the features x(d)

    - every first stage's score, min-max scaled (0 where the stage lacks d),
    - affinity: mean over the cluster heads (the ``top_s`` best documents so far) near d of score times edge weight,
    - relevance: mean score of those heads.

    The next batch maximises EstRel, and after each batch w is fitted again to the scores seen, on the features that
    their documents had when they were chosen.

    Differences: the paper fits w on the last batch alone, by least squares with bounds; here ridge regression on all
    batches (Li et al., WWW 2010), shrunk towards equal weights and clipped to [0, 1]. The paper's query-document
    similarities of a second retriever are further sources of the pool. It replaces the reranker by EstRel once E
    batches have been scored; here the budget ends the scoring. Unscored documents rank by EstRel, behind the scored
    ones (``assembler.ordering=posterior``).

    The paper's symbols: c is ``budget.max_reranker_docs``, b the scheduler's ``batch_size``, s ``top_s``, G ``graph``.
    """

    def __init__(
        self,
        corpus: Corpus,
        vectors: MakeVectors,
        k: int = 16,
        graph: str | None = None,
        top_s: int = 10,
        ridge: float = 1.0,
    ) -> None:
        super().__init__(corpus, vectors, k, graph)
        self.top_s = check_count("estimator.top_s", top_s, low=1)
        self.ridge = check_number("estimator.ridge", ridge, low=1e-9)

    def value(self, pool: CandidatePool, context: RAGtuneContext) -> Valuation:
        bandit = context.remember(self, lambda: _Bandit(pool, self._neighbours(), self.top_s, self.ridge))
        bandit.observe(pool)
        mean = bandit.estimate()
        scored = ~np.isnan(pool.scores)
        return pool.valuation(
            mean,
            posterior=np.where(scored, 1.0 + np.where(scored, pool.scores, 0.0), mean),
            diagnostics={"weights": [round(w, 6) for w in bandit.weights.tolist()]},
        )


class _Bandit:
    """One request's regression: sums over the scored documents, and the features of all."""

    def __init__(self, pool: CandidatePool, neighbours: Neighbours, top_s: int, ridge: float) -> None:
        self._neighbours = neighbours
        self._top_s = top_s
        self._sources = _source_scores(pool)
        features = self._sources.shape[1] + 2
        prior = np.full(features, 1.0 / features)
        self._gram: FloatArray = ridge * np.eye(features)
        self._target: FloatArray = ridge * prior
        self.weights: FloatArray = prior
        self._seen: set[int] = set()
        self._features: FloatArray = np.empty((0, features))

    def observe(self, pool: CandidatePool) -> None:
        new: IntArray = np.array([i for i in pool.reranked.tolist() if i not in self._seen], dtype=np.intp)
        if len(new):
            chosen = self._features[new]
            self._gram = self._gram + chosen.T @ chosen
            self._target = self._target + chosen.T @ pool.scores[new]
            self.weights = np.clip(np.linalg.solve(self._gram, self._target), 0.0, 1.0)
            self._seen.update(new.tolist())
        if len(new) or len(self._features) != len(pool):
            self._features = self._features_now(pool)

    def estimate(self) -> FloatArray:
        """EstRel of every document, in [0, 1], shape (n,)."""
        return np.clip(self._features @ self.weights, 0.0, 1.0)

    def _features_now(self, pool: CandidatePool) -> FloatArray:
        reranked = pool.reranked
        heads = reranked[np.argsort(-pool.scores[reranked], kind="stable")[: self._top_s]].tolist()
        to, weights, by = joined(self._neighbours.of(pool, heads))
        scores = pool.scores[heads][by]
        sums = np.column_stack([np.bincount(to, values, len(pool)) for values in (scores * weights, scores)])
        near = np.bincount(to, minlength=len(pool))
        missing = len(pool) - len(self._sources)
        sources = np.vstack([self._sources, np.zeros((missing, self._sources.shape[1]))])
        return np.hstack([sources, sums / np.maximum(near, 1.0)[:, None]])


def _source_scores(pool: CandidatePool) -> FloatArray:
    """Min-max scaled scores of every first stage, shape (n, stages), 0 where a stage lacks the document."""
    views = [view for name, view in scores_by_stage(pool.entries).items() if name != GRAPH_SOURCE]
    if not views:
        return unit_interval(pool.retrieval_scores)[:, None]
    columns = np.zeros((len(pool), len(views)))
    for column, view in enumerate(views):
        found = ~np.isnan(view)
        columns[found, column] = unit_interval(view[found])
    return columns
