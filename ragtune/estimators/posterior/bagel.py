"""A Gaussian process per query on text vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ragtune.core.arguments import check_number, check_vectors
from ragtune.core.arrays import FloatArray, IntArray, dense
from ragtune.core.interfaces import BaseEstimator, TextVectors
from ragtune.core.policy.scaling import with_twins_level
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.pool.valuation import Valuation
from ragtune.core.request.context import RAGtuneContext
from ragtune.data.corpus import Corpus

_LENGTHS = np.geomspace(0.01, 2.0, 24)  # length scales that the marginal likelihood chooses from


class BAGELEstimator(BaseEstimator):
    """BAGEL (Kim et al., "Bayesian Active Learning with Gaussian Processes Guided by LLM Relevance Scoring for Dense
    Passage Retrieval", Findings of ACL 2026, arXiv 2604.17906): the scores of a query's documents are a Gaussian
    process on the unit sphere of their vectors, with the query itself as a document of the highest score.

    The covariance is exp(-(1 - cosine) / l^2), the noise ``noise``, the observations are the standardised scores with
    1.0 for the query, and l is chosen by marginal likelihood in [0.01, 2] after every batch. The first ``warm`` share
    of the budget goes to the documents nearest to the query; then the next is that with the highest mean + ``beta``
    standard deviations (GP-UCB, Srinivas et al., ICML 2010). All documents rank by the posterior mean. With no warm
    start and batches it is ReBOL on the initial query (Korikov and Sanner, arXiv 2603.20513), without the rewrites
    whose vectors ReBOL adds as further documents of the highest score.

    Differences: the papers choose from the whole corpus; here it is the pool, and with ``expander=corpus_graph`` what
    is near it. Their vectors are dense; ``vectors=dense`` are those, the default is TF-IDF. l is the best of 24 values
    in equal ratios. A document without a text is like no other.

    The first stage counts for nothing, except that it chose the pool and breaks ties, which are many where the vectors
    tell little; it is the same with signals, which are evidence of its kind. The papers' symbols: l is the
    length scale, M is ``warm`` times ``budget.max_reranker_docs``, beta ``beta``.
    """

    def __init__(
        self,
        corpus: Corpus | None,
        vectors: Callable[[Any], TextVectors],
        warm: float = 0.5,
        beta: float = 2.0,
        noise: float = 0.001,
    ) -> None:
        self._vectors = check_vectors("estimator.vectors", vectors)(corpus)
        self.warm = check_number("estimator.warm", warm, low=0.0, high=1.0)
        self.beta = check_number("estimator.beta", beta, low=0.0)
        self.noise = check_number("estimator.noise", noise, low=1e-9)

    def value(self, pool: CandidatePool, context: RAGtuneContext) -> Valuation:
        made: list[FloatArray] = context.remember(self, list)
        if not made or len(made[0]) != len(pool) + 1:
            made[:] = [self._cosines(pool, context.query)]
        [cosines] = made
        observed, scores = np.append(pool.reranked, len(pool)), np.append(pool.scores[pool.reranked], 1.0)
        length, mean, variance = process(cosines, observed, scores, self.noise)
        left = self._left_of_warm_start(pool, context)
        promise = cosines[:-1, -1] if left else mean + self.beta * np.sqrt(variance)
        return pool.valuation(
            np.clip(mean, 0.0, 1.0),
            acquisition=promise,
            posterior=with_twins_level(mean, pool),
            batch_limit=left or None,
            diagnostics={"length_scale": round(length, 6)},
        )

    def _left_of_warm_start(self, pool: CandidatePool, context: RAGtuneContext) -> int:
        if not self.warm:
            return 0
        limit = context.tracker.budget.max_reranker_docs
        return max(0, round(self.warm * (len(pool) if limit is None else limit)) - len(pool.reranked))

    def _cosines(self, pool: CandidatePool, query: str) -> FloatArray:
        """Of the documents and, behind them, the query, with each other, shape (n + 1, n + 1)."""
        rows, asked = self._vectors.of(pool.entries), self._vectors.of_query(query)
        near = dense(rows @ asked.T)
        cosines: FloatArray = np.clip(np.block([[dense(rows @ rows.T), near], [near.T, np.ones((1, 1))]]), -1.0, 1.0)
        np.fill_diagonal(cosines, 1.0)
        return cosines


def process(
    cosines: FloatArray, observed: IntArray, scores: FloatArray, noise: float
) -> tuple[float, FloatArray, FloatArray]:
    """The length scale of the largest marginal likelihood, and with it all documents' means and variances."""
    spread = float(np.std(scores))
    centre, spread = (float(np.mean(scores)), spread) if spread > 1e-9 else (0.0, 1.0)
    distances = (cosines[np.ix_(observed, observed)] - 1.0)[None]
    covariances = np.exp(distances / _LENGTHS[:, None, None] ** 2) + noise * np.eye(len(observed))
    factors = np.linalg.cholesky(covariances)
    standard = np.broadcast_to((scores - centre) / spread, (len(_LENGTHS), len(scores)))
    whitened = np.linalg.solve(factors, standard[..., None])[..., 0]
    log_pivots = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
    best = int(np.argmax(-0.5 * (whitened**2).sum(axis=1) - log_pivots))
    rows = np.linalg.solve(factors[best], np.exp((cosines[observed, :-1] - 1.0) / _LENGTHS[best] ** 2))
    variance = np.maximum(1.0 - (rows**2).sum(axis=0), 0.0)
    return float(_LENGTHS[best]), centre + spread * (whitened[best] @ rows), spread**2 * variance
