"""What an estimator says of all documents of a pool, and what is believed of their relevance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np

from ragtune.core.arrays import FloatArray, IntArray
from ragtune.core.errors import InvalidScoreError
from ragtune.core.pool.columns import (
    constant,
    extended,
    is_closed,
    read_only,
    replaced,
    require,
)
from ragtune.core.pool.roster import Roster

PRIOR_VARIANCE = 0.05
"""Variance of an estimate on the score scale before any score has shown how good the estimates are."""

PRIOR_COUNT = 4
"""Number of observed residuals that weigh as much as :data:`PRIOR_VARIANCE`."""


class Belief(ABC):
    """A Gaussian belief about the latent relevance of every document of the pool, arrays of shape (n,)."""

    mean: FloatArray  # expected latent relevance; any scale
    variance: FloatArray  # never negative
    key: FloatArray  # by which the final list would be ordered if reranking stopped now
    noise: float  # variance of one rerank score around the latent relevance

    @abstractmethod
    def observing(self, position: int) -> Belief:
        """This belief as if the document at ``position`` had been scored as expected: means stay, variances shrink."""


class EmpiricalBelief(Belief):
    """The belief that follows from an estimator's bare opinions: they err as much as they have erred so far.

    Latent relevance is the score itself. Scored documents are certain; for the others the mean is the priority and the
    variance the mean squared difference between priorities and scores, shrunk towards :data:`PRIOR_VARIANCE`.

    Args:
        priorities: shape (n,), the priority of each document; for a scored one, that which it had when chosen.
        scores: shape (n,), NaN where not reranked.

    Examples:
        >>> import numpy as np
        >>> from ragtune.core.pool.valuation import EmpiricalBelief
        >>> belief = EmpiricalBelief(priorities=np.array([0.5, 0.5]), scores=np.array([0.9, np.nan]))
        >>> belief.mean.tolist(), belief.variance.round(3).tolist()
        ([0.9, 0.5], [0.0, 0.072])
    """

    noise = 0.0

    def __init__(self, priorities: FloatArray, scores: FloatArray) -> None:
        scored = ~np.isnan(scores)
        residuals = scores[scored] - priorities[scored]
        error = (PRIOR_COUNT * PRIOR_VARIANCE + float(residuals @ residuals)) / (PRIOR_COUNT + len(residuals))
        self.mean = np.where(scored, scores, priorities)
        self.variance = np.where(scored, 0.0, error)
        self.key = self.mean

    def observing(self, position: int) -> EmpiricalBelief:
        after = copy(self)
        after.variance = self.variance.copy()
        after.variance[position] = 0.0
        return after


_VALUED = 1e-12
"""Stands for an estimate of 0: Rule O2 reads a priority of 0 as "no value" and falls back to raw source scores."""


class Valuation(Mapping[str, float]):
    """``{doc_id: priority_value}`` of the eligible documents, backed by arrays over the whole pool.

    A plain dict serves as well (rule S2); this form adds what a dict cannot say. Estimators make one by
    ``CandidatePool.valuation``. Every array has shape (n,), in the pool's order.

    Args:
        roster, eligible: the pool's documents, and positions of those that may still be scheduled.
        mean: estimated relevance in [0, 1], the rerankers' scale.
        acquisition: utility that the next batch should maximise; None means the mean.
        posterior: final ranking key after all evidence, of reranked documents too, on any monotone scale; None where
            first-stage and reranker evidence are not fused.
        belief: Gaussian belief for acquisition functions and stopping rules; None from an estimator without one.
        window: positions of the documents that the estimator wants compared next, in the order in which scheduler
            ``windows`` shows them; empty where nothing is left to compare, None where it has no such wish.
        first_round: counts the documents and the calls of the estimator's first round, before whose end its ranking
            rests on too little; None from an estimator without one, and once the round is over.
        batch_limit: documents after which the estimator wants to be asked again; None for no limit.
        diagnostics: JSON-serialisable facts for the trace.

    Examples:
        >>> from ragtune.core.pool.items import PoolItem
        >>> from ragtune.core.pool.pool import CandidatePool
        >>> pool = CandidatePool([PoolItem("a", retrieval_score=2.0), PoolItem("b", retrieval_score=1.0)])
        >>> dict(pool.valuation(pool.retrieval_scores / 4))
        {'a': 0.5, 'b': 0.25}
    """

    def __init__(
        self,
        roster: Roster,
        eligible: IntArray,
        mean: FloatArray,
        *,
        acquisition: FloatArray | None = None,
        posterior: FloatArray | None = None,
        belief: Belief | None = None,
        window: Sequence[int] | None = None,
        first_round: Callable[[], tuple[int, int]] | None = None,
        batch_limit: int | None = None,
        diagnostics: dict[str, Any] | None = None,
    ) -> None:
        self.roster = roster
        self._eligible = eligible
        self.mean = mean
        self._checked: FloatArray | None = None
        self.acquisition = acquisition
        self.posterior = posterior
        self.belief = belief
        self.window = None if window is None else tuple(window)
        self.first_round = first_round
        self.batch_limit = batch_limit
        self.diagnostics = diagnostics or {}

    def __getitem__(self, doc_id: str) -> float:
        return float(self.mean[self.roster.index[doc_id]])

    def __iter__(self) -> Iterator[str]:
        return (self.roster.doc_ids[i] for i in self._eligible)

    def __len__(self) -> int:
        return len(self._eligible)

    def check(self, last: Valuation) -> None:
        """Close the columns for writing; InvalidScoreError on another shape, or a number that is not allowed.

        A closed mean that was the ``last`` valuation's as well is not checked again.
        """
        ids = self.roster.doc_ids
        self._checked = self.mean if is_closed(self.mean) else None
        if self.mean is last._checked:
            self.mean = last.mean
        else:
            mean = _column(self.mean, ids, "priority")
            require((mean >= 0.0) & (mean <= 1.0), mean, ids, "priority", "a number in [0, 1]")
            self.mean = _valued(mean)
        for name in ("posterior", "acquisition"):
            if (values := getattr(self, name)) is not None:
                column = _column(values, ids, "estimate")
                require(np.isfinite(column), column, ids, "estimate", "a finite number")
                setattr(self, name, column)

    @property
    def posteriors(self) -> FloatArray:
        """The posterior as a column, NaN where there is none."""
        return unknown(len(self.mean)) if self.posterior is None else self.posterior

    def revised(self, positions: IntArray, priorities: FloatArray) -> Valuation:
        """This valuation with other means at ``positions``; whatever else it said is void."""
        return Valuation(self.roster, self._eligible, replaced(self.mean, positions, _valued(priorities)))

    def joined(self, roster: Roster, eligible: IntArray) -> Valuation:
        """This valuation with the items that joined, none of them valued; what it said of the others alone is void."""
        joining = len(roster.doc_ids) - len(self.mean)
        posterior = None if self.posterior is None else extended(self.posterior, unknown(joining))
        return Valuation(roster, eligible, extended(self.mean, constant(joining, 0.0)), posterior=posterior)


def _valued(mean: FloatArray) -> FloatArray:
    return mean if mean.all() else read_only(np.where(mean == 0.0, _VALUED, mean))


def unknown(n: int) -> FloatArray:
    """A column of n numbers that are not known, closed for writing."""
    return constant(n, np.nan)


def _column(values: FloatArray, doc_ids: Sequence[str], what: str) -> FloatArray:
    # What is closed for writing need not be copied: nobody changes it behind the history's back.
    column = values if is_closed(values) else read_only(np.array(values, dtype=float))
    if column.shape != (len(doc_ids),):
        raise InvalidScoreError(f"{what} of shape {column.shape}: allowed is one number a document, ({len(doc_ids)},)")
    return column
