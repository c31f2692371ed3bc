"""How much the sources count beside the reranker: what they agree on and it does not explain."""

from __future__ import annotations

import numpy as np

from ragtune.core.arrays import FloatArray
from ragtune.estimators._first_stage import standardised

_GAIN = 2.0
"""Weight of the pooled evidence for each unit of unexplained agreement."""

_PRIOR_AGREEMENT = 0.06
"""Unexplained agreement that is assumed before any score, and where a single source has no witness."""

_PRIOR_DOCS = 10.0
"""Number of scored documents that weigh as much as that assumption."""

_TINY = 1e-9
"""The least spread of relevance: below it, all documents are alike."""


class Corroboration:
    """The weight of the first-stage evidence in the final order, learned from the scores of one request.

    If sources err independently of each other given relevance, and the reranker sees all of relevance, then what two
    sources agree on is what both have in common with the reranker: their correlation is the product of their
    correlations with it (a vanishing partial correlation; Spearman's one-factor model, Lawley and Maxwell 1971). What
    they agree on beyond that, rho_jk - rho_jr rho_kr, is relevance that the reranker does not see, and the final order
    keeps it. With one source there is no pair, and nothing in the scores can tell a harmful reranker from one that
    corrects its source: the prior stays.

    Args:
        columns: evidence of S sources on the n documents that a first stage ranked, shape (n, S).
    """

    def __init__(self, columns: FloatArray) -> None:
        self._sources = np.column_stack([standardised(column) for column in columns.T])
        self._pairs = np.triu_indices(columns.shape[1], 1)
        agreement = self._sources.T @ self._sources / len(columns)
        self._agreement = agreement[self._pairs]

    def unexplained(self, mean: FloatArray, variance: FloatArray) -> float | None:
        """Mean unexplained agreement over the pairs of sources, in (-1, 1]; None of a single source.

        Args:
            mean, variance: posterior of the n documents' relevance. The spread of relevance over the documents is that
                of the means plus the mean variance, as in the law of total variance.
        """
        if not len(self._agreement):
            return None
        spread = max(float(np.sqrt(mean.var() + np.maximum(variance, 0.0).mean())), _TINY)
        seen = self._sources.T @ (mean - mean.mean()) / (len(mean) * spread)
        first, second = self._pairs
        return float((self._agreement - seen[first] * seen[second]).mean())

    def weight(self, mean: FloatArray, variance: FloatArray, scored: int) -> float:
        """Weight of the pooled evidence, > 0: the unexplained agreement, as far as the scores so far bear it out."""
        unexplained = self.unexplained(mean, variance)
        docs = 0 if unexplained is None else scored
        earned = docs * max(unexplained or 0.0, 0.0)
        return _GAIN * (earned + _PRIOR_DOCS * _PRIOR_AGREEMENT) / (docs + _PRIOR_DOCS)
