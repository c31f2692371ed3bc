"""Windows as observations of the posterior over relevance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ragtune.core.arguments import check_number, check_positive, check_vectors
from ragtune.core.interfaces import TextVectors
from ragtune.core.pool.items import PoolItem
from ragtune.data.corpus import Corpus
from ragtune.estimators.comparing._order import PlackettLucePosterior
from ragtune.estimators.comparing._windows import Ask, Play, WindowEstimator, by_halves
from ragtune.estimators.posterior._factor import next_row
from ragtune.estimators.posterior._first_stage import first_stage_evidence, squared_lengths
from ragtune.estimators.posterior._posterior import Prior, RelevancePosterior


class PlackettLuceEstimator(WindowEstimator):
    """Gaussian posterior over relevance from first-stage evidence, text similarity and the orders of windows.

    The prior is that of the estimator ``uncertainty``. Each document also has a variance of its own, beside what
    evidence and similar texts explain. The order of a window is an observation under the Plackett-Luce model, see
    :class:`ragtune.estimators.comparing._order.PlackettLucePosterior`. It moves the documents that were shown, those
    that read alike, and the first stage's weight. The next window holds the documents with the highest
    mean + ``kappa`` standard deviations (GP-UCB, Srinivas et al., ICML 2010), best mean first: those that lead, which
    are the anchors that tie it to earlier windows, and those that might. The ranking is by the posterior mean. It ends
    with the first window that was shown before in the same order, as the same question has the same answer.

    Args:
        corpus: collection that ``vectors`` are made from; None where these need none.
        vectors: makes the text vectors of the corpus, in the sparse form.
        window: documents a call, >= 2.
        temperature: scale of the comparer's Gumbel noise, in units of the latent relevance, > 0.
        own_variance: variance of a document's own relevance, >= 0.
        kappa: standard deviations that a document's promise adds to its mean, >= 0.

    Raises:
        ConfigError: on an argument out of range.
    """

    def __init__(
        self,
        corpus: Corpus | None,
        vectors: Callable[[Any], TextVectors],
        window: int = 20,
        temperature: float = 0.2,
        own_variance: float = 0.3,
        kappa: float = 2.0,
    ) -> None:
        super().__init__(window)
        self._vectors = check_vectors("estimator.vectors", vectors)(corpus)
        self.temperature = check_positive("estimator.temperature", temperature)
        self.own_variance = check_number("estimator.own_variance", own_variance, low=0.0)
        self.kappa = check_number("estimator.kappa", kappa, low=0.0)

    def play(self, items: Sequence[PoolItem], calls: Callable[[], int | None]) -> Play:
        posterior, shown = self._prior(items), set[tuple[int, ...]]()
        while True:
            promise = posterior.mean + self.kappa * np.sqrt(np.maximum(np.diag(posterior.covariance), 0.0))
            chosen = set(np.argsort(-promise, kind="stable")[: self.window].tolist())
            ranking = [int(position) for position in np.argsort(-posterior.mean, kind="stable")]
            window = tuple(position for position in ranking if position in chosen)
            if window in shown:
                return ranking
            shown.add(window)
            verdict = yield from by_halves(Ask(window, ranking))
            if verdict.has_failed and not verdict.tiers:
                return ranking
            posterior.learn(verdict.tiers)

    def _prior(self, items: Sequence[PoolItem]) -> PlackettLucePosterior:
        prior, rows = Prior(), self._vectors.of(items)
        unseen = RelevancePosterior(first_stage_evidence(items, rows), rows, prior)
        nothing = unseen.factor.having(0)
        columns = map(unseen.covariance.column, range(len(items)))
        scaled = [next_row(i, column, nothing, unseen.variance, prior.noise) for i, column in enumerate(columns)]
        covariance = np.stack([row * pivot for row, pivot in scaled])
        # The prior gives an empty text the variance of a full one; twice as much makes windows look at more of them.
        missing = prior.text_weight * (1.0 - squared_lengths(rows))
        covariance[np.diag_indices(len(items))] += self.own_variance + np.maximum(missing, 0.0)
        return PlackettLucePosterior(unseen.mean, covariance, self.temperature)
