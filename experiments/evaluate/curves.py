"""Quality-versus-cost curves from the anytime history."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.evaluate.rows import Rows
from experiments.evaluate.steps import Steps
from ragtune.core.arrays import IntArray

FloatArray = NDArray[np.float64]

_WEIGHTS = 2_000_000
"""Numbers that are drawn at once, so that memory does not grow with the number of samples."""


@dataclass(frozen=True)
class Curve:
    """Mean quality at each cost step, over the judged queries.

    Attributes:
        measures: names, m of them.
        docs: shape (s,), documents that each query may have reranked at most; 0 first.
        costs: shape (s, u), mean charged so far in each of ``UNITS``.
        per_query: shape (q, s, m), values of each query in its state at each step.
        low, high: shape (s, m), ends of the bootstrap interval of the mean.
        first_stage: shape (m,), means of the first stage's own order.
    """

    measures: Sequence[str]
    docs: NDArray[np.int64]
    costs: FloatArray
    per_query: FloatArray
    low: FloatArray
    high: FloatArray
    first_stage: FloatArray

    @property
    def mean(self) -> FloatArray:
        """Means over the queries, shape (s, m)."""
        mean: FloatArray = self.per_query.mean(axis=0)
        return mean

    def area(self, measure: int = 0) -> float:
        """Mean height of a measure's step curve from 0 documents to the last step, see :func:`area`."""
        return area(self.docs.astype(float), self.mean[:, measure], 0.0, float(self.docs[-1]), stepwise=True)

    def docs_to(self, share: float, reference: float, measure: int = 0) -> int | None:
        """Fewest documents at which the mean reaches ``share * reference``; None if it never does."""
        reached = np.flatnonzero(self.mean[:, measure] >= share * reference - 1e-12)
        return int(self.docs[reached[0]]) if len(reached) else None


def curve(steps: Steps, measures: Sequence[str], bootstrap: Bootstrap, folder: Path | None = None) -> Curve:
    """The curve of a run.

    A query that retrieved nothing counts with the measures' default, 0, at every step.

    Args:
        steps: of the judged queries, at least one.
        measures: names of what was measured.
        bootstrap: of the intervals.
        folder: may hold the values of many queries.
    """
    docs = _depths(steps)
    spent, values = np.zeros((len(docs), steps.costs.shape[1])), Rows(folder)
    first_stage = np.zeros(len(measures))
    for part in steps.parts():
        first_stage += part.first_stage.sum(axis=0)
        at = part.at(docs)
        costs = part.costs[at]
        costs[0] += spent  # one sum, so that the parts do not change its rounding
        spent = costs.sum(axis=0)
        values.extend(part.values[at])
    per_query = values.whole()
    n = len(per_query)
    return Curve(measures, docs, spent / n, per_query, *bootstrap.interval(per_query), first_stage / n)


def area(x: FloatArray, y: FloatArray, low: float, high: float, *, stepwise: bool) -> float:
    """Mean height of the curve through (x, y) between ``low`` and ``high``: the area under it, divided by its width.

    It keeps the height of its first point before that point, and of its last point behind it.

    Args:
        x, y: shape (s,), x ascending.
        low, high: ends of the range; if they are equal, the height there is returned.
        stepwise: the curve keeps its height until the next point, as a run does between two batches; otherwise points
            are joined by straight lines, as between the budgets of a study.
    """
    inside = (x > low) & (x < high)
    xs = np.concatenate(([low], x[inside], [high]))
    if stepwise:
        heights = y[np.maximum(np.searchsorted(x, xs, side="right") - 1, 0)]
        return float(heights[-1] if high <= low else heights[:-1] @ np.diff(xs) / (high - low))
    heights = np.interp(xs, x, y)
    return float(heights[-1] if high <= low else np.trapezoid(heights, xs) / (high - low))


def _depths(steps: Steps) -> IntArray:
    """Every number of documents that a query has been charged at some step, ascending."""
    is_one = np.zeros(int(steps.costs[:, 0].max()) + 1, dtype=bool)  # np.unique loads all of masked arrays
    for part in steps.parts():
        is_one[part.costs[:, 0].astype(np.int64)] = True
    return np.flatnonzero(is_one)


Draw = Callable[[np.random.Generator, int, int], NDArray[Any]]
"""Draws random samples of n queries: counts or signs of shape (samples, n), all of which a byte can hold."""


def in_blocks(draw: Draw, n: int, samples: int, seed: int) -> Iterator[NDArray[np.int8]]:
    """Random samples of n queries in blocks of at most :data:`_WEIGHTS` numbers. A single one is kept."""
    at_once = max(_WEIGHTS // n, 1)
    if samples <= at_once:
        yield _drawn(draw, n, samples, seed)
        return
    rng = np.random.default_rng(seed)
    for start in range(0, samples, at_once):
        yield draw(rng, n, min(at_once, samples - start)).astype(np.int8)


@lru_cache(maxsize=2)
def _drawn(draw: Draw, n: int, samples: int, seed: int) -> NDArray[np.int8]:
    return draw(np.random.default_rng(seed), n, samples).astype(np.int8)


def _counts(rng: np.random.Generator, n: int, samples: int) -> NDArray[Any]:
    if n <= _FEW:
        return rng.multinomial(n, np.full(n, 1.0 / n), size=samples)
    picked = rng.integers(n, size=(samples, n)) + np.arange(0, samples * n, n)[:, None]
    return np.bincount(picked.ravel(), minlength=samples * n).reshape(samples, n)


_FEW = 2048
"""Queries up to which counts are drawn by a multinomial distribution, as in published intervals. Picking each query by
itself has the same distribution and takes a tenth of the time."""


@dataclass(frozen=True)
class Bootstrap:
    """Percentile bootstrap intervals of means over the same queries (Efron and Tibshirani 1993).

    Attributes:
        resamples: bootstrap samples, >= 1.
        level: of the intervals, in (0, 1).
        seed: seed of the samples.
    """

    resamples: int
    level: float
    seed: int

    def interval(self, per_query: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The lower and upper ends of the interval of the mean of values that have the queries along axis 0."""
        n, tail = len(per_query), (1.0 - self.level) / 2.0
        samples = in_blocks(_counts, n, self.resamples, self.seed)
        means = [np.tensordot(counts / n, per_query, axes=1) for counts in samples]
        low, high = np.quantile(np.concatenate(means), [tail, 1.0 - tail], axis=0)
        return low, high


def bootstrap_interval(
    per_query: FloatArray, *, resamples: int, level: float, seed: int
) -> tuple[FloatArray, FloatArray]:
    """The lower and upper ends of an interval, see :class:`Bootstrap`."""
    return Bootstrap(resamples, level, seed).interval(per_query)
