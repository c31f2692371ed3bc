"""A Gaussian process per query on text vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ragtune.core.arguments import check_number, check_positive, check_vectors
from ragtune.core.arrays import FloatArray, IntArray, dense
from ragtune.core.interfaces import BaseEstimator, TextVectors
from ragtune.core.policy.scaling import with_twins_level
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

    The first stage counts for nothing, except that it chose the pool and breaks ties, which are many where the vectors
    tell little; it is the same with signals, which are evidence of its kind. The papers' symbols: l is the
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
        self.noise = check_positive("estimator.noise", noise)

    def value(self, pool: CandidatePool, context: RAGtuneContext) -> Valuation:
        if not len(pool):
            return pool.valuation(np.zeros(0))
        found = context.remember(self, lambda: _Processes(self._cosines(pool, context.query), self.noise))
        if len(found) < len(pool):
            found.begin(self._cosines(pool, context.query))
        found.observe(pool.reranked, pool.scores)
        length, mean, variance = found.posterior()
        left = self._left_of_warm_start(pool, context)
        promise = found.cosines[:-1, -1] if left else mean + self.beta * np.sqrt(variance)
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


class _Processes:
    """Gaussian processes over n documents and the query behind them, one a length scale, whose observations only grow.

    Each has a Cholesky factor of the observations' covariance, whose rows go over all documents, and both the observed
    scores and ones with that factor taken out: standardising changes the scores at every batch, but nothing else.

    Args:
        cosines: shape (n + 1, n + 1).
        noise: variance of an observation.
    """

    def __init__(self, cosines: FloatArray, noise: float) -> None:
        self._noise = noise
        self._first: dict[int, float] = {}
        self.begin(cosines)

    def __len__(self) -> int:
        return len(self.cosines) - 1

    def begin(self, cosines: FloatArray) -> None:
        """Begin again with more documents, behind those that were, and what was observed of them yet to be told."""
        count, lengths = len(cosines), len(_LENGTHS)
        self.cosines = cosines
        self._told: list[int] = []
        self._values: list[float] = []
        self._rows = np.empty((lengths, 32, count))
        self._whitened = np.empty((2, lengths, 32))
        self._log_pivots = np.zeros(lengths)
        self._variance = np.ones((lengths, count))
        self._observe(count - 1, 1.0)

    def observe(self, scored: IntArray, scores: FloatArray) -> None:
        """Take in the scores of these documents; one that had a score is known by that."""
        for position in scored.tolist():
            self._first.setdefault(position, float(scores[position]))
        for position in sorted(self._first.keys() - set(self._told)):
            self._observe(position, self._first[position])

    def _observe(self, position: int, value: float) -> None:
        k = len(self._told)
        if k == self._rows.shape[1]:
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)], axis=1)
            self._whitened = np.concatenate([self._whitened, np.empty_like(self._whitened)], axis=2)
        rows, whitened = self._rows[:, :k], self._whitened[:, :, :k]
        at = rows[:, :, position]
        pivot = np.sqrt(np.maximum(self._variance[:, position], 0.0) + self._noise)
        explained = (at[:, None, :] @ rows)[:, 0]
        row = (np.exp((self.cosines[position] - 1.0) / _LENGTHS[:, None] ** 2) - explained) / pivot[:, None]
        self._whitened[:, :, k] = (np.array([[value], [1.0]]) - (whitened * at).sum(axis=2)) / pivot
        self._rows[:, k] = row
        self._variance -= row**2
        self._log_pivots += np.log(pivot)
        self._told.append(position)
        self._values.append(value)

    def posterior(self) -> tuple[float, FloatArray, FloatArray]:
        """The length scale of the largest marginal likelihood, and mean and variance of the documents' scores by it."""
        k = len(self._told)
        spread = float(np.std(self._values))
        centre, spread = (float(np.mean(self._values)), spread) if spread > 1e-9 else (0.0, 1.0)
        observed = (self._whitened[0, :, :k] - centre * self._whitened[1, :, :k]) / spread
        best = int(np.argmax(-0.5 * (observed**2).sum(axis=1) - self._log_pivots))
        mean = observed[best] @ self._rows[best, :k, :-1]
        variance = np.maximum(self._variance[best, :-1], 0.0)
        return float(_LENGTHS[best]), centre + spread * mean, spread**2 * variance
