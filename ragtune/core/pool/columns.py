"""The numbers of a pool as read-only columns, which a change makes anew, and their checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ragtune.core.arrays import FloatArray, IntArray
from ragtune.core.errors import InvalidScoreError

_T = TypeVar("_T", bound=np.generic)
_FLOAT = np.dtype(np.float64)

CANDIDATE, IN_FLIGHT, RERANKED, DROPPED = range(4)
"""State codes: positions in ``ItemState``'s order of definition."""


class PoolColumns(NamedTuple):
    """The pool's numbers at one moment; read-only arrays of shape (n,), NaN where there is none."""

    states: NDArray[np.int8]
    scores: FloatArray
    priorities: FloatArray
    base_scores: FloatArray
    posteriors: FloatArray
    keeps_dropped: bool = True  # DROPPED items take part in the final ranking

    @property
    def active(self) -> IntArray:
        """Positions of the CANDIDATE and RERANKED items, ascending."""
        return where((self.states == CANDIDATE) | (self.states == RERANKED))

    @property
    def ranked(self) -> IntArray:
        """Positions of the items that take part in the final ranking, ascending."""
        return where(self.states != IN_FLIGHT) if self.keeps_dropped else self.active


def read_only(array: NDArray[_T]) -> NDArray[_T]:
    """The given array, closed for writing."""
    array.setflags(False)  # type: ignore[call-arg]  # by keyword it takes twice the time
    return array


def where(flags: NDArray[np.bool_]) -> IntArray:
    """Positions of those that are set, ascending: ``np.flatnonzero`` in half its time, of which little is the work."""
    return flags.nonzero()[0]


def all_of(flags: NDArray[np.bool_]) -> bool:
    """Whether all are set: ``flags.all()`` in a fifth of its time."""
    return b"\0" not in flags.tobytes()


@lru_cache(maxsize=64, typed=True)  # 0.0 and False are equal, and so they would share one column
def constant(n: int, value: float | bool | None) -> NDArray[Any]:
    """A column of n equal numbers or truth values, closed for writing, so that pools of one size share it."""
    return read_only(np.full(n, value))


def is_closed(array: Any) -> bool:
    """Whether it is an array of floats of its own that is closed for writing."""
    if not isinstance(array, np.ndarray) or array.dtype != _FLOAT:
        return False
    flags = array.flags
    return flags.owndata and not flags.writeable


def require(good: NDArray[np.bool_], values: FloatArray, doc_ids: Sequence[str], what: str, allowed: str) -> None:
    """Refuse the first value that is not good by the name of its document, with an InvalidScoreError."""
    if not all_of(good):
        at = int(good.argmin())
        raise InvalidScoreError(f"{what} {float(values[at])!r} of document {doc_ids[at]!r}: allowed is {allowed}")


def is_calibrated(value: object) -> bool:
    """Whether it is a number in [0, 1]; True and False are no numbers, nor is a text that could be read as one."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    return bool(0.0 <= value <= 1.0)


def calibrated(values: Mapping[str, float], what: str) -> FloatArray:
    """The numbers of ``values`` in order, shape (len(values),), each checked to lie in [0, 1]."""
    for doc_id, value in values.items():
        if not (type(value) is float and 0.0 <= value <= 1.0) and not is_calibrated(value):  # without a call for most
            raise InvalidScoreError(f"{what} {value!r} of document {doc_id!r}: allowed is a number in [0, 1]")
    return np.fromiter(values.values(), float, len(values))


def replaced(array: NDArray[_T], positions: IntArray, values: Any) -> NDArray[_T]:
    """A copy with other values at ``positions``."""
    new = array.copy()
    new[positions] = values
    return read_only(new)


def extended(array: NDArray[_T], values: Sequence[float] | FloatArray) -> NDArray[_T]:
    """A copy with ``values`` behind."""
    return read_only(np.concatenate([array, np.asarray(values, dtype=array.dtype)]))


_HUGE = 1e150  # numbers above it have squares that no float holds


def squarable(values: FloatArray, axis: int | None = None) -> FloatArray:
    """The values, divided by the largest of them, or of those along an axis, where their squares were too large."""
    largest = np.abs(values).max(axis=axis, keepdims=True, initial=0.0)
    if largest.max(initial=0.0) <= _HUGE:
        return values
    return values / np.where(largest > _HUGE, largest, 1.0)


def unit_interval(scores: FloatArray) -> FloatArray:
    """Min-max scaling to [0, 1], shape kept; all-equal scores become 0.5. Order-preserving."""
    if not len(scores):
        return scores
    scores = scores / 2.0  # so that the span of what floats hold is one, too
    low, high = float(scores.min()), float(scores.max())
    if high <= low:
        return np.full(len(scores), 0.5)
    return (scores - low) / (high - low)
