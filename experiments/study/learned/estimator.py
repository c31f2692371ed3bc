"""The default policy with a prior mean from a table."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np

from ragtune.core.errors import DatasetError
from ragtune.core.interfaces import TextVectors
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.pool.valuation import Valuation
from ragtune.core.request.context import RAGtuneContext
from ragtune.data.corpus import Corpus
from ragtune.data.runfile import read_run
from ragtune.estimators._posterior import RelevancePosterior
from ragtune.estimators.uncertainty import UncertaintyEstimator


class LearnedPriorEstimator(UncertaintyEstimator):
    """:class:`UncertaintyEstimator` that begins with other means; covariance, updates and final order are the same.

    Args:
        corpus, vectors, trust, echoes, prior: as of :class:`UncertaintyEstimator`.
        means: a run with the prior mean of each candidate in the place of a score.

    Raises:
        DatasetError: if the run is unusable or, when asked, lacks a candidate.
    """

    def __init__(
        self,
        corpus: Corpus | None,
        vectors: Callable[[Any], TextVectors],
        means: str | Path,
        trust: float = 0.5,
        echoes: Collection[str] = (),
        **prior: Any,
    ) -> None:
        super().__init__(corpus, vectors, trust, echoes, **prior)
        self._path = str(means)
        self._means = {q: {entry.doc_id: entry.score for entry in entries} for q, entries in read_run(means).items()}

    def value(self, pool: CandidatePool, context: RAGtuneContext) -> Valuation:
        if len(pool):
            context.remember(self, lambda: self._informed(pool, context.query_id))
        return super().value(pool, context)

    def _informed(self, pool: CandidatePool, query_id: str) -> RelevancePosterior:
        known = self._means.get(query_id, {})
        for doc_id in pool.doc_ids:
            if doc_id not in known:
                raise DatasetError(f"{self._path!r} has no mean of document {doc_id!r} for query {query_id!r}")
        posterior = self._start(pool)
        # No component of one's own needs to set it, so the library has no argument for it.
        posterior._prior_mean = np.array([known[doc_id] for doc_id in pool.doc_ids])
        posterior.mean = posterior._prior_mean.copy()
        return posterior
