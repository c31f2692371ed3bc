"""What the estimator said last, as checked read-only columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ragtune.core.arrays import FloatArray, IntArray
from ragtune.core.errors import InvalidScoreError
from ragtune.core.pool.belief import Belief
from ragtune.core.pool.columns import extended, is_closed, read_only, replaced, require_calibrated, require_finite
from ragtune.core.pool.items import PoolItem
from ragtune.core.pool.valuation import Valuation

_VALUED = 1e-12


@dataclass(frozen=True)
class Estimates:
    """An estimator's latest answer about all n documents of a pool; arrays of shape (n,), closed for writing.

    Attributes:
        priority: estimated relevance, in [0, 1].
        posterior: final ranking keys, NaN where the estimator gave none.
        variance, acquisition, belief, batch_limit: as in :class:`Valuation`, None where it said nothing.
    """

    priority: FloatArray
    posterior: FloatArray
    variance: FloatArray | None = None
    acquisition: FloatArray | None = None
    belief: Belief | None = None
    batch_limit: int | None = None

    @classmethod
    def of(cls, valuation: Valuation) -> Estimates:
        """A valuation's columns.

        Raises:
            InvalidScoreError: if a column has another shape, a number that is not finite, or a priority outside [0, 1].
        """
        ids = valuation.doc_ids
        priority = _column(valuation.mean, ids, "priority")
        require_calibrated(priority, ids, "priority")
        posterior, variance, acquisition = (
            None if values is None else _column(values, ids, "estimate")
            for values in (valuation.posterior, valuation.variance, valuation.acquisition)
        )
        priority = _valued(priority)
        posterior = _unknown(len(ids)) if posterior is None else posterior
        return cls(priority, posterior, variance, acquisition, valuation.belief, valuation.batch_limit)

    def revised(self, positions: IntArray, priorities: FloatArray) -> Estimates:
        """Other priorities at ``positions``; whatever else was said is void."""
        return Estimates(replaced(self.priority, positions, _valued(priorities)), _unknown(len(self.priority)))

    def joined(self, items: Iterable[PoolItem]) -> Estimates:
        """With the items' own numbers behind; what was said of the others alone is void."""
        items = list(items)
        posteriors = [np.nan if it.posterior is None else it.posterior for it in items]
        return Estimates(
            extended(self.priority, [it.priority_value for it in items]), extended(self.posterior, posteriors)
        )


def _valued(priority: FloatArray) -> FloatArray:
    """0.54 reads a priority of 0 as "not valued" and falls back to raw source scores; an estimate of 0 is a value."""
    return priority if priority.all() else read_only(np.where(priority == 0.0, _VALUED, priority))


@lru_cache(maxsize=16)
def _unknown(n: int) -> FloatArray:
    return read_only(np.full(n, np.nan))


def _column(values: FloatArray, doc_ids: Sequence[str], what: str) -> FloatArray:
    # What is closed for writing need not be copied: nobody changes it behind the history's back.
    column = values if is_closed(values) else np.array(values, dtype=float)
    if column.shape != (len(doc_ids),):
        raise InvalidScoreError(f"{what} of shape {column.shape}: allowed is one number a document, ({len(doc_ids)},)")
    require_finite(column, doc_ids, what)
    return read_only(column)
