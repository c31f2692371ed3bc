"""Windows as observations of the posterior over relevance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragtune.core.arguments import check_number, check_vectors
from ragtune.core.arrays import FloatArray, IntArray
from ragtune.core.interfaces import TextVectors
from ragtune.core.pool.items import PoolItem
from ragtune.data.corpus import Corpus
from ragtune.estimators.comparing._windows import Ask, Play, WindowEstimator, best_first, by_halves
from ragtune.estimators.posterior._first_stage import first_stage_evidence, squared_lengths
from ragtune.estimators.posterior._posterior import Prior, RelevancePosterior, next_row


class PlackettLuceEstimator(WindowEstimator):
    """Gaussian posterior over relevance from first-stage evidence, text similarity and the orders of windows.

    The prior is that of the estimator ``uncertainty``. Each document also has a variance of its own, beside what
    evidence and similar texts explain. The order of a window is an observation under the Plackett-Luce model, see
    :class:`PlackettLucePosterior`. It moves the documents that were shown, those that read alike,
    and the first stage's weight. The next window holds the documents with the highest
    mean + ``kappa`` standard deviations (GP-UCB, Srinivas et al., ICML 2010), best mean first: those that lead, which
    are the anchors that tie it to earlier windows, and those that might. Of a document without text, which no other
    document informs, a deviation counts twice. It ends with the first window that was shown before in the same order,
    as the same question has the same answer.

    The ranking is by mean + ``first_stage`` * first-stage evidence. The first stage knows of relevance that the model
    does not see. With 0 it is by the mean alone.
    """

    def __init__(
        self,
        corpus: Corpus | None,
        vectors: Callable[[Any], TextVectors],
        window: int = 20,
        temperature: float = 0.2,
        own_variance: float = 0.3,
        kappa: float = 1.0,
        first_stage: float = 0.15,
    ) -> None:
        super().__init__(window)
        self._vectors = check_vectors("estimator.vectors", vectors)(corpus)
        self.temperature = check_number("estimator.temperature", temperature, low=1e-9)
        self.own_variance = check_number("estimator.own_variance", own_variance, low=0.0)
        self.kappa = check_number("estimator.kappa", kappa, low=0.0)
        self.first_stage = check_number("estimator.first_stage", first_stage, low=0.0)

    def play(self, items: Sequence[PoolItem], calls: Callable[[], int | None]) -> Play:
        rows, shown = self._vectors.of(items), set[tuple[int, ...]]()
        missing = np.maximum(1.0 - squared_lengths(rows), 0.0)
        evidence, posterior = self._prior(items, rows, missing)
        while True:
            deviation = np.sqrt(np.maximum(np.diag(posterior.covariance), 0.0))
            promise = posterior.mean + self.kappa * (1.0 + missing) * deviation
            chosen = set(best_first(promise)[: self.window])
            ranking = best_first(posterior.mean + self.first_stage * evidence)
            window = tuple(position for position in best_first(posterior.mean) if position in chosen)
            if window in shown:
                return ranking
            shown.add(window)
            verdict = yield from by_halves(Ask(window, ranking))
            if verdict.has_failed and not verdict.tiers:
                return ranking
            posterior.learn(verdict.tiers)

    def _prior(
        self, items: Sequence[PoolItem], rows: Any, missing: FloatArray
    ) -> tuple[FloatArray, PlackettLucePosterior]:
        prior = Prior()
        unseen = RelevancePosterior(first_stage_evidence(items, rows), rows, prior)
        columns = map(unseen.covariance.column, range(len(items)))
        scaled = [next_row(i, column, unseen.factor, unseen.variance, prior.noise) for i, column in enumerate(columns)]
        covariance = np.stack([row * pivot for row, pivot in scaled])
        # The prior gives an empty text the variance of a full one; twice as much makes windows look at more of them.
        covariance[np.diag_indices(len(items))] += self.own_variance + prior.text_weight * missing
        return unseen.evidence, PlackettLucePosterior(unseen.mean, covariance, self.temperature)


_STEPS = 50  # Newton steps at most; a window takes some five


class PlackettLucePosterior:
    """Laplace approximation of a Gaussian prior under Plackett-Luce likelihoods (Guiver and Snelson, ICML 2009; for
    Gaussian processes Chu and Ghahramani, ICML 2005).

    A window's order is a sequence of choices: each document is chosen from those that are left with a probability
    proportional to exp(r / temperature). Documents of one tier were not told apart. The log posterior is concave, and
    its mode and curvature are the posterior's ``mean``, shape (n,), and ``covariance``, shape (n, n).
    """

    def __init__(self, mean: FloatArray, covariance: FloatArray, temperature: float) -> None:
        self._prior_mean, self._prior = mean, covariance
        self._temperature = temperature
        self._windows: list[tuple[IntArray, IntArray, NDArray[np.bool_]]] = []
        self._dual = np.zeros(len(mean))  # of the offset from the prior mean, which is the prior covariance times it
        self.mean, self.covariance = mean, covariance

    def learn(self, tiers: Sequence[Sequence[int]]) -> None:
        """Condition on the order of a window, by tiers, best first; a single tier says nothing."""
        if len(tiers) < 2:
            return
        self._windows.append(_choices(tiers))
        value, gradient, curvature = self._at(self._dual)
        for _ in range(_STEPS):
            wanted = self._solved(curvature, curvature @ (self._prior @ self._dual) + gradient)
            step = 1.0
            dual, (after, gradient, curvature) = wanted, self._at(wanted)
            while after < value and step > 1e-4:  # Newton's step overshoots where the likelihood is flat
                step /= 2.0
                dual = self._dual + step * (wanted - self._dual)
                after, gradient, curvature = self._at(dual)
            self._dual = dual
            if after - value < 1e-6:
                break
            value = after
        self.mean = self._prior_mean + self._prior @ self._dual
        covariance = self._prior @ self._solved(curvature, np.eye(len(self.mean)))
        self.covariance = (covariance + covariance.T) / 2.0

    def _solved(self, curvature: FloatArray, right: FloatArray) -> FloatArray:
        """(I + W K)^-1 times ``right``, with the curvature W and the prior covariance K."""
        return np.asarray(np.linalg.solve(np.eye(len(curvature)) + curvature @ self._prior, right), dtype=np.float64)

    def _at(self, dual: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """The log posterior there, up to a constant, and gradient and negative Hessian of its likelihood."""
        offset = self._prior @ dual
        utility = (self._prior_mean + offset) / self._temperature
        value = -0.5 * float(dual @ offset)
        gradient, curvature = np.zeros(len(dual)), np.zeros((len(dual), len(dual)))
        for positions, chosen, among in self._windows:
            masked = np.where(among, utility[positions], -np.inf)
            masked = masked - masked.max(axis=1, keepdims=True)
            weights = np.exp(masked)
            totals = weights.sum(axis=1)
            shares = weights / totals[:, None]
            value += float((masked[np.arange(len(chosen)), chosen] - np.log(totals)).sum())
            pull = -shares.sum(axis=0)
            pull[chosen] += 1.0
            gradient[positions] += pull / self._temperature
            bend = (np.diag(shares.sum(axis=0)) - shares.T @ shares) / self._temperature**2
            curvature[np.ix_(positions, positions)] += bend
        return value, gradient, curvature


def _choices(tiers: Sequence[Sequence[int]]) -> tuple[IntArray, IntArray, NDArray[np.bool_]]:
    """Positions of a window's k documents, the c chosen ones as places in it, and whom each was chosen from, (c, k)."""
    positions = np.array([position for tier in tiers for position in tier], dtype=np.intp)
    level = np.repeat(np.arange(len(tiers)), [len(tier) for tier in tiers])
    chosen = np.flatnonzero(level < len(tiers) - 1)
    among = level[None, :] > level[chosen, None]
    among[np.arange(len(chosen)), chosen] = True
    return positions, chosen, among
