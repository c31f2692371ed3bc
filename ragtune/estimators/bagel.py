"""A Gaussian process per query on text vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ragtune.core.arguments import check_number, check_positive
from ragtune.core.arrays import FloatArray, IntArray
from ragtune.core.interfaces import BaseEstimator, TextVectors
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.pool.valuation import Valuation
from ragtune.core.request.context import RAGtuneContext
from ragtune.data.corpus import Corpus

_LENGTHS = np.geomspace(0.01, 2.0, 24)
"""Length scales that the marginal likelihood chooses from."""


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

    The first stage counts for nothing, except that it chose the pool and breaks ties. The papers' symbols: l is the
    length scale, M is ``warm`` times ``budget.max_reranker_docs``, beta ``beta``.

    Args:
        corpus: collection that ``vectors`` are made from; None where these need none.
        vectors: makes the vectors of the documents, and of the query among them.
        warm: share of the budget, of the pool where there is no limit, for the query's nearest documents, in [0, 1].
        beta: standard deviations that a document's promise adds to its mean, >= 0.
        noise: variance of an observation in units of the scores' own, > 0.

    Raises:
        ConfigError: on an argument out of range.
    """

    reads_budget = True

    def __init__(
        self,
        corpus: Corpus | None,
        vectors: Callable[[Any], TextVectors],
        warm: float = 0.5,
        beta: float = 2.0,
        noise: float = 0.001,
    ) -> None:
        self._vectors = vectors(corpus)
        self.warm = check_number("estimator.warm", warm, low=0.0, high=1.0)
        self.beta = check_number("estimator.beta", beta, low=0.0)
        self.noise = check_positive("estimator.noise", noise)

    def value(self, pool: CandidatePool, context: RAGtuneContext) -> Valuation:
        if not len(pool):
            return pool.valuation(np.zeros(0))
        cosines: dict[int, FloatArray] = context.remember(self, dict)
        if len(pool) not in cosines:
            cosines[len(pool)] = self._cosines(pool, context.query)
        known = cosines[len(pool)]
        length, mean, variance = self._posterior(known, pool.reranked, pool.scores)
        left = self._left_of_warm_start(pool, context)
        promise = known[:-1, -1] if left else mean + self.beta * np.sqrt(variance)
        return pool.valuation(
            np.clip(mean, 0.0, 1.0),
            variance=variance,
            acquisition=promise,
            posterior=mean,
            batch_limit=left or None,
            diagnostics={"length_scale": round(length, 6)},
        )

    def _left_of_warm_start(self, pool: CandidatePool, context: RAGtuneContext) -> int:
        limit = context.tracker.budget.max_reranker_docs
        return max(0, round(self.warm * (len(pool) if limit is None else limit)) - len(pool.reranked))

    def _cosines(self, pool: CandidatePool, query: str) -> FloatArray:
        """Of the documents and, behind them, the query, with each other, shape (n + 1, n + 1)."""
        rows, asked = _dense(self._vectors.of(pool.entries)), _dense(self._vectors.of_query(query))
        every = np.vstack([rows, asked])
        cosines: FloatArray = np.clip(every @ every.T, -1.0, 1.0)
        np.fill_diagonal(cosines, 1.0)
        return cosines

    def _posterior(
        self, cosines: FloatArray, scored: IntArray, scores: FloatArray
    ) -> tuple[float, FloatArray, FloatArray]:
        """Length scale, and mean and variance of the documents' scores given those of ``scored`` and the query's."""
        told = np.append(scored, len(cosines) - 1)
        values = np.append(scores[scored], 1.0)
        spread = float(values.std())
        centre, spread = (float(values.mean()), spread) if spread > 1e-9 else (0.0, 1.0)
        observed = (values - centre) / spread
        fits = [self._fit(cosines, told, observed, length) for length in _LENGTHS]
        best = int(np.argmax([likelihood for likelihood, _ in fits]))
        likeness = _covariance(cosines[told, :-1], _LENGTHS[best])
        factor = fits[best][1]
        whitened = np.linalg.solve(factor, np.column_stack([likeness, observed]))
        mean = whitened[:, :-1].T @ whitened[:, -1]
        variance = np.maximum(1.0 - (whitened[:, :-1] ** 2).sum(axis=0), 0.0)
        return float(_LENGTHS[best]), centre + spread * mean, spread**2 * variance

    def _fit(
        self, cosines: FloatArray, told: IntArray, observed: FloatArray, length: float
    ) -> tuple[float, FloatArray]:
        """Log marginal likelihood, up to a constant, and the Cholesky factor of the observations' covariance."""
        covariance = _covariance(cosines[np.ix_(told, told)], length) + self.noise * np.eye(len(told))
        factor = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
        whitened = np.linalg.solve(factor, observed)
        return float(-0.5 * whitened @ whitened - np.log(np.diag(factor)).sum()), factor


def _covariance(cosines: FloatArray, length: float) -> FloatArray:
    covariance: FloatArray = np.exp(-(1.0 - cosines) / length**2)
    return covariance


def _dense(rows: Any) -> FloatArray:
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float64)
