"""First-stage evidence: what every source's ranks and scores say, and how much that counts beside the reranker."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragtune.core.arrays import FloatArray, IntArray
from ragtune.core.policy.scaling import scores_by_stage, standardised
from ragtune.core.pool.items import PoolItem

RETRIEVAL = "retrieval"
"""Name of the only source where items say nothing of their sources."""

_NEUTRAL_RANK = 20
"""The rank at which a source's rank evidence is 0: better ranks speak for a document, worse ones against it."""


_PRIOR_AGREEMENT = 0.076
"""Unexplained agreement that is assumed before any score, and where a single source has no witness."""

_PRIOR_DOCS = 10.0  # number of scored documents that weigh as much as that assumption
_LEAST_DOCS = 3  # documents without which two views always agree or always disagree

_CONTRADICTED = 4.0  # weight of the pooled evidence for each unit of correlation below 0
_USUAL_CORRELATION, _USUAL_DOCS = 0.3, 20.0  # of sources and reranker, and the scored documents that weigh as much


@dataclass(frozen=True)
class FirstStageEvidence:
    """Evidence of S sources on n documents."""

    columns: FloatArray  # shape (n, S), each the mean of ln(21) - ln(1 + rank) and the standardised score
    weights: FloatArray  # shape (S,), see source_weights
    names: tuple[str, ...]
    echoes: Collection[str] = ()  # derived sources: their agreement with others proves nothing

    @property
    def pooled(self) -> FloatArray:
        """Shape (n,), the weighted sum of the sources."""
        return self.columns @ self.weights


def first_stage_evidence(
    items: Sequence[PoolItem], rows: Any = None, echoes: Collection[str] = (), parents: IntArray | None = None
) -> FirstStageEvidence:
    """Evidence from the items' ``sources``; a missing document has twice the worst rank and the lowest score.

    With ``parents``, shape (n,), it is the evidence on n passages of these documents: each has its document's.
    """
    views = scores_by_stage(items)
    if views:
        columns = np.column_stack([_column(view) for view in views.values()])
    else:
        columns = _column(np.array([item.retrieval_score for item in items], dtype=float))[:, None]
    columns = columns if parents is None else columns[parents]
    return FirstStageEvidence(columns, source_weights(columns, rows), tuple(views) or (RETRIEVAL,), echoes)


def source_weights(columns: FloatArray, rows: Any = None) -> FloatArray:
    """How much each of S sources counts, shape (S,), in [0, 1]; a single one counts in full."""
    count = columns.shape[1]
    if count == 1:
        return np.ones(1)
    sources = np.column_stack([standardised(column) for column in columns.T])
    weights = _said_once(sources)
    return weights if rows is None else weights * _said_of_texts(sources, rows)


def squared_lengths(rows: Any) -> FloatArray:
    """Squared lengths of sparse rows, shape (n,): 1 of a normalised text, 0 without one."""
    return np.asarray(rows.multiply(rows).sum(axis=1), dtype=float).ravel()


def _column(scores: FloatArray) -> FloatArray:
    missing = np.isnan(scores)
    if not missing.any() and np.ptp(scores) == 0.0:
        return np.zeros(len(scores))  # a source that scores all alike says nothing, not even by their order
    scores = np.where(missing, np.nanmin(scores), scores)
    ranks = np.empty(len(scores))
    ranks[np.lexsort((-scores, missing))] = np.arange(1, len(scores) + 1)
    ranks[missing] = 2.0 * (len(scores) - missing.sum())
    by_rank = np.log(_NEUTRAL_RANK + 1.0) - np.log1p(ranks)
    column: FloatArray = 0.5 * (by_rank + standardised(scores))
    return column


def _said_once(sources: FloatArray) -> FloatArray:
    """R^-1 1, R the sources' correlations: generalised least squares (Aitken 1936); eigenvalues below 1 count as 1."""
    correlations = np.clip(sources.T @ sources / len(sources), 0.0, 1.0)
    np.fill_diagonal(correlations, 1.0)
    values, vectors = np.linalg.eigh(correlations)
    weights: FloatArray = vectors @ (vectors.sum(axis=0) / np.maximum(values, 1.0))
    return np.clip(weights, 0.0, 1.0)


def _said_of_texts(sources: FloatArray, rows: Any) -> FloatArray:
    """Each source's correlation with its average over similar texts (Diaz, CIKM 2007), relative to the highest one."""
    short, _ = compact(rows)
    around = short @ (short.T @ sources) - squared_lengths(rows)[:, None] * sources
    likeness = np.array([(standardised(near) * own).mean() for near, own in zip(around.T, sources.T, strict=True)])
    highest = float(likeness.max())
    return np.clip(likeness / highest, 0.0, 1.0) if highest > 0.0 else np.ones(len(likeness))


def compact(rows: Any) -> tuple[Any, IntArray]:
    """Return the rows without empty columns, and the columns that are left, ascending: hashed terms have a million."""
    from scipy.sparse import csr_matrix

    if rows.shape[1] <= rows.nnz:
        return rows, np.arange(rows.shape[1])
    columns, places = np.unique(rows.indices, return_inverse=True)
    return csr_matrix((rows.data, places, rows.indptr), shape=(rows.shape[0], len(columns))), columns


_TINY = 1e-6  # spreads and weights below it are none
_LIMIT = 3.0  # standard deviations: a document from outside the pool can be a wild outlier by a small pool's spread


class Feedback:
    """Cosine with the rank-weighted mean of the top documents' vectors (Rocchio 1971), each of these without itself."""

    def __init__(self, pooled: FloatArray, rows: Any, docs: int) -> None:
        top = np.argsort(-pooled, kind="stable")[:docs]
        weights = 1.0 / np.log2(2.0 + np.arange(len(top)))
        weights /= weights.sum()
        self.short, self._terms = short, _ = compact(rows)
        self._centroid: FloatArray = short[top].T @ weights
        likeness = short @ self._centroid
        self.lengths = squared_lengths(rows)
        likeness[top] = (likeness[top] - weights * self.lengths[top]) / np.maximum(1.0 - weights, _TINY)
        self._mean, self._deviation = float(likeness.mean()), float(likeness.std())
        self.column = standardised(likeness)
        self.says_something = self._deviation >= _TINY

    def of_new(self, rows: Any) -> FloatArray:
        """The likeness of documents that joined later, shape (m,); 0 where the first ones' says nothing."""
        if not self.says_something:
            return np.zeros(rows.shape[0])
        centroid = np.zeros(rows.shape[1])
        centroid[self._terms] = self._centroid
        likeness: FloatArray = (rows @ centroid - self._mean) / self._deviation
        return np.clip(likeness, -_LIMIT, _LIMIT)


def contradiction(correlation: float, docs: int) -> float:
    """Further weight of the evidence, >= 0, where the scores of ``docs`` documents run against the sources."""
    shrunk = (docs * correlation + _USUAL_DOCS * _USUAL_CORRELATION) / (docs + _USUAL_DOCS)
    return _CONTRADICTED * max(-shrunk, 0.0)


class Corroboration:
    """The weight of the first-stage evidence in the final order: docs/components/estimators.md, "Trust"."""

    def __init__(self, evidence: FirstStageEvidence) -> None:
        kept = [i for i, name in enumerate(evidence.names) if name not in evidence.echoes]
        self._names = [evidence.names[i] for i in kept]
        if len(self._names) < 2:
            return
        self._sources = np.column_stack([standardised(evidence.columns[:, i]) for i in kept])
        self._pairs = np.triu_indices(len(self._names), 1)
        agreement = self._sources.T @ self._sources / len(self._sources)
        self._agreement = agreement[self._pairs]

    def unexplained(self, mean: FloatArray, variance: FloatArray) -> float | None:
        """Unexplained agreement of the sources as far as it is believed, in [0, 1]; None of a single source."""
        if len(self._names) < 2:
            return None
        spread = max(float(np.sqrt(mean.var() + np.maximum(variance, 0.0).mean())), _TINY)
        seen = self._sources.T @ (mean - mean.mean()) / (len(mean) * spread)
        first, second = seen[self._pairs[0]], seen[self._pairs[1]]
        common = np.maximum(first, 0.0) ** 2 + np.maximum(second, 0.0) ** 2
        believed = np.minimum(common / np.maximum(self._agreement**2, _TINY), 1.0) ** 2
        pairs = np.maximum(self._agreement - first * second, 0.0) * believed
        return float(pairs @ pairs / max(pairs.sum(), _TINY))

    def weight(self, mean: FloatArray, variance: FloatArray, scored: int) -> float:
        """Weight of the pooled evidence, > 0: the unexplained agreement, as far as the scores so far bear it out."""
        unexplained = self.unexplained(mean, variance)
        docs = 0 if unexplained is None else scored
        earned = docs * (unexplained or 0.0)
        return (earned + _PRIOR_DOCS * _PRIOR_AGREEMENT) / (docs + _PRIOR_DOCS)

    def margins(self, scored: NDArray[np.bool_], scores: FloatArray) -> dict[str, float]:
        """By source j the mean of rho_jk - rho_rk over the others k, in [-2, 2]; none where it cannot be told."""
        if len(self._names) < 2 or (docs := np.count_nonzero(scored)) < _LEAST_DOCS:
            return {}
        views = np.empty((docs, len(self._names) + 1))
        views[:, :-1], views[:, -1] = self._sources[scored], scores[scored]
        views -= views.mean(axis=0)
        products = views.T @ views
        deviations = np.sqrt(products.diagonal())
        if deviations.min() < _TINY * np.sqrt(docs):
            return {}
        agreement = products / deviations / deviations[:, None]
        # A source is no witness of itself: its own 1, and what that was compared with, come off again.
        gains = (agreement[:-1, :-1] - agreement[-1, :-1]).sum(axis=1) - (1.0 - agreement[-1, :-1])
        margins = gains / (len(self._names) - 1)
        return dict(zip(self._names, margins.tolist(), strict=True))
