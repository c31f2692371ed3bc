"""A Gaussian posterior over the relevance of a pool, conditioned on rerank scores one row at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ragtune.core.arrays import FloatArray
from ragtune.core.policy.scaling import logits, rank_correlation
from ragtune.estimators.posterior._first_stage import (
    Corroboration,
    Feedback,
    FirstStageEvidence,
    compact,
    squared_lengths,
)

_PRIOR_COUNT = 4.0  # number of documents that weigh as much as the assumption that two strategies agree already


def reference_logit(predictions: Sequence[float], logits: Sequence[float]) -> float:
    """The last of a strategy's logits on the reference's scale: Bayesian least squares (Bishop 2006, section 3.3)."""
    x, y = np.array(predictions), np.array(logits)
    spread = max(float(x.var()), 1.0)
    design = np.column_stack([np.ones(len(x)), x - x.mean()])
    precision = np.diag([_PRIOR_COUNT, _PRIOR_COUNT * spread])
    line = np.linalg.solve(design.T @ design + precision, design.T @ y + precision @ np.array([x.mean(), 1.0]))
    stretch = max(float(line[1]), 0.1)
    shift = float(line[0]) - stretch * float(x.mean())
    return (logits[-1] - shift) / stretch


@dataclass(frozen=True)
class Prior:
    """Prior of the latent relevance r, in units of the reranker's own logit spread (its ``scale``).

    r ~ N(m, K),   m = intercept + evidence_slope phi + feedback_slope psi,
    K = intercept_variance 11' + evidence_variance FWF' + feedback_variance psi psi' + text_weight C + D,
    logit(score) / scale = r + e,   e ~ N(0, noise)

    with F the first-stage evidence of each source, W the diagonal of their weights, phi their weighted sum, psi the
    standardised cosine with the first-stage top documents, C the text cosines, and D what a document has of its own:
    own_variance + text_weight (1 - c), c its cosine with itself, 1, or 0 without a text.
    """

    intercept: float = -1.5
    evidence_slope: float = 0.3
    feedback_slope: float = 0.06
    intercept_variance: float = 5.0
    evidence_variance: float = 0.03
    feedback_variance: float = 0.03
    text_weight: float = 0.8
    own_variance: float = 0.09
    noise: float = 0.31
    scale: float = 2.0
    scale_strength: float = 0.05
    feedback_docs: int = 3


class Covariance:
    """K = XX' + text_weight C + D of n documents, see :class:`Prior`, with X the design of shape (n, features)."""

    def __init__(self, design: FloatArray, rows: Any, own: FloatArray, text_weight: float, short: Any = None) -> None:
        self.design, self.rows = design, rows
        self._own, self._text_weight = own, text_weight
        self._compact = compact(rows)[0] if short is None else short
        self._columns: dict[int, FloatArray] = {}  # each is asked for when a document is chosen, and when it is scored

    def column(self, position: int) -> FloatArray:
        """Covariance of a document with all, shape (n,)."""
        if position in self._columns:
            return self._columns[position]
        text = np.zeros(self._compact.shape[1])
        place = slice(*self._compact.indptr[position : position + 2])
        text[self._compact.indices[place]] = self._compact.data[place]
        column: FloatArray = self.design @ self.design[position] + self._text_weight * (self._compact @ text)
        column[position] += self._own[position]
        self._columns[position] = column
        return column

    def extended(self, design: FloatArray, rows: Any, own: FloatArray) -> Covariance:
        from scipy.sparse import vstack

        return Covariance(
            np.vstack([self.design, design]),
            vstack([self.rows, rows], format="csr"),
            np.append(self._own, own),
            self._text_weight,
        )


def next_row(
    position: int, covariance: FloatArray, factor: FloatArray, variance: FloatArray, noise: float
) -> tuple[FloatArray, float]:
    """The next row of a Cholesky factor over n documents, shape (n,), and its pivot, if a document were scored next."""
    pivot = math.sqrt(max(float(variance[position]), 0.0) + noise)
    return (covariance - factor[:, position] @ factor) / pivot, pivot


class RelevancePosterior:
    """Exact Gaussian-process regression by an incremental Cholesky factor (Rasmussen and Williams 2006, alg. 2.1)."""

    def __init__(self, evidence: FirstStageEvidence, rows: Any, prior: Prior, trust: float = 0.5) -> None:
        self._prior, self.trust = prior, trust
        n = rows.shape[0]
        self._feedback = Feedback(evidence.pooled, rows, prior.feedback_docs)
        feedback = self._feedback.column
        self.evidence = evidence.pooled
        self._corroboration = Corroboration(evidence)
        self._weights = evidence.weights
        self._worst = evidence.columns.min(axis=0)  # of each source, for documents that it does not rank
        design, own = self._features(evidence.columns, feedback), self._own(self._feedback.lengths)
        self.covariance = Covariance(design, rows, own, prior.text_weight, self._feedback.short)
        self._prior_mean = self._means(evidence.pooled, feedback)
        self._rows = np.zeros((32, n))
        self._pivots: list[float] = []
        self._whitened = np.zeros((2, 32))  # the logits and the prior means of scored documents
        self._ranked = n
        self._order: list[int] = []
        self._reference: str | None = None
        self._others: dict[str | None, list[tuple[float, float]]] = {}  # predictions and logits by strategy
        self.regularised = 0
        self.scored = np.zeros(n, dtype=bool)
        self.own_logits = np.zeros(n)
        self.variance = self._prior_variance(self.covariance.design)
        self.inverse_scale = 1.0 / prior.scale
        self.mean = self._prior_mean.copy()

    def __len__(self) -> int:
        return len(self.mean)

    def update(self, positions: Iterable[int], scores: Iterable[float], strategies: Iterable[str | None]) -> None:
        """Condition on scores in [0, 1] of new documents; the first strategy ever seen is the reference."""
        positions = [int(position) for position in positions]
        predicted = self.mean / self.inverse_scale
        found = logits(np.fromiter(scores, float, len(positions)))
        for position, logit, strategy in zip(positions, found.tolist(), strategies, strict=True):
            self._condition(position, self._calibrated(strategy, logit, float(predicted[position])))
        self._refit()

    def extend(self, rows: Any) -> None:
        """Add candidates that no first stage ranked: worst for every source, and tied to the rest by their texts."""
        count = rows.shape[0]
        feedback = self._feedback.of_new(rows)
        design = self._features(np.tile(self._worst, (count, 1)), feedback)
        pooled = np.full(count, self._worst @ self._weights)
        columns = np.zeros((len(self._rows), count))
        columns[: len(self._order)] = self._project(design, rows)
        variance = self._prior_variance(design) - (columns**2).sum(axis=0)
        self._rows = np.hstack([self._rows, columns])
        self.covariance = self.covariance.extended(design, rows, self._own(squared_lengths(rows)))
        self._prior_mean = np.append(self._prior_mean, self._means(pooled, feedback))
        self.evidence = np.append(self.evidence, 0.5 * (pooled + self._borrowed(rows)))
        self.variance = np.append(self.variance, variance)
        self.scored = np.append(self.scored, np.zeros(count, dtype=bool))
        self.own_logits = np.append(self.own_logits, np.zeros(count))
        self._refit()

    @property
    def noise(self) -> float:
        return self._prior.noise

    @property
    def factor(self) -> FloatArray:
        """The rows of the Cholesky factor so far, shape (k, n); later scores write behind them."""
        return self._rows[: len(self._order)]

    @property
    def correlation(self) -> float | None:
        """Rank correlation of scores and evidence; None in an expanded pool, where the scores chose the documents."""
        scored = np.flatnonzero(self.scored)
        if self.discovered or not len(scored) or np.ptp(self.evidence[scored]) == 0.0:
            return None
        return rank_correlation(self.evidence[scored], self.own_logits[scored])

    @property
    def corroboration(self) -> float:
        """Weight of the first-stage evidence that the sources' agreement bears out, as far as it is known, > 0."""
        first = slice(self._ranked)
        return self._corroboration.weight(self.mean[first], self.variance[first], len(self._order))

    @property
    def margins(self) -> dict[str, float]:
        return self._corroboration.margins(self.scored[: self._ranked], self.own_logits[: self._ranked])

    @property
    def discovered(self) -> float:
        """Share of the documents that no first stage ranked, in [0, 1)."""
        share: float = 1.0 - self._ranked / len(self)
        return share

    def _project(self, design: FloatArray, rows: Any) -> FloatArray:
        """The factor's columns of new documents, shape (k, count): what the scores so far say of them."""
        from scipy.linalg import solve_triangular

        known = np.array(self._order, dtype=np.intp)
        texts = (self.covariance.rows[known] @ rows.T).toarray()
        cross: FloatArray = self.covariance.design[known] @ design.T + self._prior.text_weight * texts
        triangle = np.tril(self.factor[:, known].T, -1) + np.diag(self._pivots)
        return solve_triangular(triangle, cross, lower=True) if len(known) else cross

    def _borrowed(self, rows: Any) -> FloatArray:
        """Evidence of the first-stage documents, averaged by the fourth power of their cosine with new ones."""
        first = self._ranked
        influence = (rows @ self.covariance.rows[:first].T).toarray() ** 4
        borrowed: FloatArray = influence @ self.evidence[:first] / (influence.sum(axis=1) + 1e-9)
        return borrowed

    def _calibrated(self, strategy: str | None, logit: float, predicted: float) -> float:
        if not self._order:
            self._reference = strategy
        if strategy == self._reference:
            return logit
        self._others.setdefault(strategy, []).append((predicted, logit))
        predictions, logits = zip(*self._others[strategy], strict=True)
        return reference_logit(predictions, logits)

    def _condition(self, position: int, logit: float) -> None:
        k, seen = len(self._order), self.factor[:, position].copy()
        self.regularised += bool(self.variance[position] < 0.0)
        row, pivot = next_row(position, self.covariance.column(position), self.factor, self.variance, self._prior.noise)
        if k == len(self._rows):
            self._rows = np.vstack([self._rows, np.zeros_like(self._rows)])
            self._whitened = np.hstack([self._whitened, np.zeros_like(self._whitened)])
        self._rows[k] = row
        self._pivots.append(pivot)
        for whitened, value in zip(self._whitened, (logit, self._prior_mean[position]), strict=True):
            whitened[k] = (value - seen @ whitened[:k]) / pivot
        self.variance = self.variance - row**2
        self.scored[position] = True
        self.own_logits[position] = logit
        self._order.append(position)

    def _refit(self) -> None:
        """MAP of the inverse scale s given all scores (a quadratic), and the means that follow from it.

        log p(s) = (k + scale_strength) log s - s^2 (|u|^2 + scale_strength scale^2) / 2 + s u.v + const, with u and v
        the whitened logits and prior means.
        """
        k, prior = len(self._order), self._prior
        logits, offsets = self._whitened[:, :k]
        a = logits @ logits + prior.scale_strength * prior.scale**2
        b = logits @ offsets
        self.inverse_scale = float((b + np.sqrt(b * b + 4.0 * (k + prior.scale_strength) * a)) / (2.0 * a))
        self.mean = self._prior_mean + (self.inverse_scale * logits - offsets) @ self.factor

    def _own(self, lengths: FloatArray) -> FloatArray:
        """The diagonal D: of the text part, a document has as its own what it has not in common with itself."""
        own: FloatArray = self._prior.own_variance + self._prior.text_weight * (1.0 - lengths)
        return own

    def _prior_variance(self, design: FloatArray) -> FloatArray:
        variance: FloatArray = (design**2).sum(axis=1) + self._prior.text_weight + self._prior.own_variance
        return variance

    def _features(self, columns: FloatArray, feedback: FloatArray) -> FloatArray:
        """Design matrix with the prior deviations folded in, so that its Gram matrix is the linear part of K."""
        prior = self._prior
        ones = np.full(len(columns), np.sqrt(prior.intercept_variance))
        evidence = columns * np.sqrt(prior.evidence_variance * self._weights)
        return np.column_stack([ones, evidence, feedback * np.sqrt(prior.feedback_variance)])

    def _means(self, pooled: FloatArray, feedback: FloatArray) -> FloatArray:
        return self._prior.intercept + self._prior.evidence_slope * pooled + self._prior.feedback_slope * feedback
