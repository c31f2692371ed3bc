"""First-stage evidence: what every source's ranks and scores say, discounted for agreement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ragtune.core.arrays import FloatArray
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import first_stage_of

RETRIEVAL = "retrieval"
"""Name of the only source where items say nothing of their sources."""

_NEUTRAL_RANK = 20
"""The rank at which a source's rank evidence is 0: better ranks speak for a document, worse ones against it."""


@dataclass(frozen=True)
class FirstStageEvidence:
    """Evidence of S sources on n documents.

    Attributes:
        columns: shape (n, S); each the mean of ``ln(21) - ln(1 + rank)`` and the standardised score.
        pooled: shape (n,), the sources' mean times ``sources``.
        sources: how many independent sources they are worth: S / (1 + (S - 1) rho), rho their mean correlation in
            [0, 1] (the effective sample size of correlated measurements, Kish 1965).
        names: of the S sources.
    """

    columns: FloatArray
    pooled: FloatArray
    sources: float
    names: tuple[str, ...]

    @property
    def worst(self) -> FloatArray:
        """Shape (S,), each source's evidence against a document that it does not rank."""
        lowest: FloatArray = self.columns.min(axis=0)
        return lowest


def first_stage_evidence(items: Sequence[PoolItem]) -> FirstStageEvidence:
    """Evidence from the items' ``sources``.

    A source ranks its documents by score, ties by the pool's order; a document that it lacks ranks at twice its worst
    rank and scores its lowest score. What one first stage found for the query and for its rewrites is one source: the
    same retriever asked again is no independent witness.
    """
    views = scores_by_stage(items)
    if views:
        columns = np.column_stack([_column(view) for view in views.values()])
    else:
        columns = _column(np.array([item.retrieval_score for item in items], dtype=float))[:, None]
    sources = _effective_sources(columns)
    return FirstStageEvidence(columns, columns.mean(axis=1) * sources, sources, tuple(views) or (RETRIEVAL,))


def scores_by_stage(items: Sequence[PoolItem]) -> dict[str, FloatArray]:
    """Scores by first stage, each of shape (n,), NaN where it did not find the document.

    Of what a stage found for the query and for its rewrites, which are on one scale, the best counts.
    """
    views: dict[str, FloatArray] = {}
    for name in dict.fromkeys(name for item in items for name in item.sources):
        view = np.array([item.sources.get(name, np.nan) for item in items], dtype=float)
        stage = first_stage_of(name)
        views[stage] = np.fmax(views[stage], view) if stage in views else view
    return views


def standardised(values: FloatArray) -> FloatArray:
    """Zero mean, unit standard deviation; all zeros where the values do not differ."""
    deviation = float(values.std())
    return (values - values.mean()) / deviation if deviation > 1e-9 else np.zeros_like(values)


def _column(scores: FloatArray) -> FloatArray:
    missing = np.isnan(scores)
    scores = np.where(missing, np.nanmin(scores), scores)
    ranks = np.empty(len(scores))
    ranks[np.lexsort((-scores, missing))] = np.arange(1, len(scores) + 1)
    ranks[missing] = 2.0 * (len(scores) - missing.sum())
    by_rank = np.log(_NEUTRAL_RANK + 1.0) - np.log1p(ranks)
    column: FloatArray = 0.5 * (by_rank + standardised(scores))
    return column


def _effective_sources(columns: FloatArray) -> float:
    count = columns.shape[1]
    if count == 1:
        return 1.0
    with np.errstate(all="ignore"):
        correlations = np.atleast_2d(np.corrcoef(columns.T))[np.triu_indices(count, 1)]
    agreement = float(np.clip(np.nan_to_num(correlations, nan=1.0).mean(), 0.0, 1.0))
    return float(count / (1.0 + (count - 1) * agreement))
