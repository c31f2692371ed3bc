"""What an estimator says of the pool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ragtune.core.arrays import FloatArray, IntArray
from ragtune.core.pool.belief import Belief


class Valuation(Mapping[str, float]):
    """``{doc_id: priority_value}`` of the eligible documents, backed by arrays over the whole pool.

    A plain dict serves as well (0.54 section 2); this form adds what a dict cannot say and costs O(n) NumPy work
    instead of O(n) Python work. Made by ``CandidatePool.valuation``; every array has shape (n,), in the pool's order.

    Args:
        doc_ids: the pool's ids.
        index: position of each id.
        eligible: positions of the documents that may still be scheduled.
        mean: estimated relevance in [0, 1], the rerankers' scale.
        variance: of that estimate, same scale squared; None where the estimator has no notion of it.
        acquisition: what the next batch should maximise, where the estimator itself decides; None means the mean.
        posterior: final ranking key after all evidence, of reranked documents too; None where first-stage and
            reranker evidence are not fused. Any monotone scale.
        belief: for acquisition functions and stopping rules; None from estimators that only have an opinion.
        batch_limit: documents after which the estimator wants to be asked again, where its advice holds for no more
            (an alternating policy's source that runs dry); None for no limit.
        diagnostics: JSON-serialisable facts for the trace.
    """

    def __init__(
        self,
        doc_ids: tuple[str, ...],
        index: Mapping[str, int],
        eligible: IntArray,
        mean: FloatArray,
        *,
        variance: FloatArray | None = None,
        acquisition: FloatArray | None = None,
        posterior: FloatArray | None = None,
        belief: Belief | None = None,
        batch_limit: int | None = None,
        diagnostics: dict[str, Any] | None = None,
    ) -> None:
        self.doc_ids = doc_ids
        self._index = index
        self._eligible = eligible
        self.mean = mean
        self.variance = variance
        self.acquisition = acquisition
        self.posterior = posterior
        self.belief = belief
        self.batch_limit = batch_limit
        self.diagnostics = diagnostics or {}

    def __getitem__(self, doc_id: str) -> float:
        return float(self.mean[self._index[doc_id]])

    def __iter__(self) -> Iterator[str]:
        return (self.doc_ids[i] for i in self._eligible)

    def __len__(self) -> int:
        return len(self._eligible)
