"""First-stage evidence: what every source's ranks and scores say, discounted for what they have in common."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ragtune.core.arrays import FloatArray, IntArray
from ragtune.core.hits import Entries
from ragtune.core.policy.scaling import standardised
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import first_stage_of

RETRIEVAL = "retrieval"
"""Name of the only source where items say nothing of their sources."""

_NEUTRAL_RANK = 20
"""The rank at which a source's rank evidence is 0: better ranks speak for a document, worse ones against it."""


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
        pooled: FloatArray = self.columns @ self.weights
        return pooled


def first_stage_evidence(
    items: Sequence[PoolItem], rows: Any = None, echoes: Collection[str] = ()
) -> FirstStageEvidence:
    """Evidence from the items' ``sources``; a missing document has twice the worst rank and the lowest score."""
    views = scores_by_stage(items)
    if views:
        columns = np.column_stack([_column(view) for view in views.values()])
    else:
        columns = _column(np.array([item.retrieval_score for item in items], dtype=float))[:, None]
    return FirstStageEvidence(columns, source_weights(columns, rows), tuple(views) or (RETRIEVAL,), echoes)


def source_weights(columns: FloatArray, rows: Any = None) -> FloatArray:
    """How much each of S sources counts, shape (S,), in [0, 1]; a single one counts in full."""
    count = columns.shape[1]
    if count == 1:
        return np.ones(1)
    sources = np.column_stack([standardised(column) for column in columns.T])
    weights = _said_once(sources)
    return weights if rows is None else weights * _said_of_texts(sources, rows)


def scores_by_stage(items: Sequence[PoolItem]) -> dict[str, FloatArray]:
    """The best scores by first stage, rewrites included, each of shape (n,), NaN where it did not find the document."""
    if isinstance(items, Entries) and items.views is not None:
        return {first_stage_of(name): view for name, view in items.views.items()}
    views: dict[str, FloatArray] = {}
    for name in dict.fromkeys(name for item in items for name in item.sources):
        view = np.array([item.sources.get(name, np.nan) for item in items], dtype=float)
        stage = first_stage_of(name)
        views[stage] = np.fmax(views[stage], view) if stage in views else view
    return views


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
    """R^-1 1, R the correlations in [0, 1]: generalised least squares for the mean of correlated measurements (Aitken
    1936). Eigenvalues of R below 1 count as 1, so that a small difference between sources that agree is not blown up.
    """
    correlations = np.clip(sources.T @ sources / len(sources), 0.0, 1.0)
    np.fill_diagonal(correlations, 1.0)
    values, vectors = np.linalg.eigh(correlations)
    weights: FloatArray = vectors @ (vectors.sum(axis=0) / np.maximum(values, 1.0))
    return np.clip(weights, 0.0, 1.0)


def _said_of_texts(sources: FloatArray, rows: Any) -> FloatArray:
    """Each source's correlation with its own average over documents with similar texts, relative to the highest one.

    It is the cluster hypothesis (Diaz, CIKM 2007); 1 for all where there are no texts, or no source follows them.
    """
    short, _ = compact(rows)
    around = short @ (short.T @ sources) - squared_lengths(rows)[:, None] * sources
    likeness = np.array([(standardised(near) * own).mean() for near, own in zip(around.T, sources.T, strict=True)])
    highest = float(likeness.max())
    shares: FloatArray = np.clip(likeness / highest, 0.0, 1.0) if highest > 0.0 else np.ones(len(likeness))
    return shares


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
    """Cosine with the rank-weighted mean of the top documents' vectors (Rocchio 1971), each of these without itself.

    Attributes:
        column: the standardised likeness, shape (n,).
        says_something: whether some documents read more like the top documents than others do.
    """

    def __init__(self, pooled: FloatArray, rows: Any, docs: int) -> None:
        top = np.argsort(-pooled, kind="stable")[:docs]
        weights = 1.0 / np.log2(2.0 + np.arange(len(top)))
        weights /= weights.sum()
        self.short, self._terms = short, _ = compact(rows)
        self._centroid: FloatArray = short[top].T @ weights
        likeness = short @ self._centroid
        lengths = squared_lengths(rows[top])
        likeness[top] = (likeness[top] - weights * lengths) / np.maximum(1.0 - weights, _TINY)
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
