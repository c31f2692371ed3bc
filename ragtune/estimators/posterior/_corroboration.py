"""How much the sources count beside the reranker: what they agree on and it does not explain."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ragtune.core.arrays import FloatArray
from ragtune.core.policy.scaling import standardised
from ragtune.estimators.posterior._first_stage import FirstStageEvidence

_PRIOR_AGREEMENT = 0.076
"""Unexplained agreement that is assumed before any score, and where a single source has no witness."""

_PRIOR_DOCS = 10.0  # number of scored documents that weigh as much as that assumption
_LEAST_DOCS = 3  # documents without which two views always agree or always disagree
_TINY = 1e-9  # the least spread of relevance: below it, all documents are alike

_CONTRADICTED = 4.0  # weight of the pooled evidence for each unit of correlation below 0
_USUAL_CORRELATION, _USUAL_DOCS = 0.3, 20.0  # of sources and reranker, and the scored documents that weigh as much


def rank_correlation(evidence: FloatArray, logits: FloatArray) -> float:
    """Spearman's, of two arrays of shape (k,), in [-1, 1]; 0 where one of them does not vary."""
    if not len(logits):
        return 0.0
    return float(standardised(_ranks(evidence)) @ standardised(_ranks(logits))) / len(logits)


def _ranks(values: FloatArray) -> FloatArray:
    """Ranks from 1, ascending; equal values share the mean of theirs."""
    ordered = np.sort(values)
    return (ordered.searchsorted(values, "left") + ordered.searchsorted(values, "right") + 1) / 2.0


def contradiction(correlation: float, docs: int) -> float:
    """Further weight of the evidence, >= 0, where the scores of ``docs`` documents run against the sources.

    Useful rerankers nearly always agree with the first stage to some degree, so a correlation below 0 speaks against
    the scores of this request. It is shrunk towards the usual one, since few documents show any correlation by chance.
    """
    shrunk = (docs * correlation + _USUAL_DOCS * _USUAL_CORRELATION) / (docs + _USUAL_DOCS)
    return _CONTRADICTED * max(-shrunk, 0.0)


class Corroboration:
    """The weight of the first-stage evidence in the final order, learned from the scores of one request.

    The one-factor model (Lawley and Maxwell 1971) and its limits are in docs/components/estimators.md, "Trust".
    """

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
