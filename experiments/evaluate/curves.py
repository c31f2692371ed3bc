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

_WEIGHTS = 8_000_000
"""Weights or signs of queries in random samples used at once, so that memory does not grow with the samples' number."""

_KEPT = 16_000_000
"""Such numbers, of a byte each, that are kept: the jobs of a sweep share theirs."""

_DRAWN = 100_000
"""Such numbers drawn at once, at eight bytes each before they are made small."""


@dataclass(frozen=True)
class Curve:
    """Mean quality at each cost step, over the judged queries.

    Attributes:
        measures: names, m of them.
        docs: shape (s,), documents that each query may have reranked at most; 0 first.
        costs: shape (s, u), mean charged so far in each of ``UNITS``.
        per_query: shape (q, s, m), values of each query in its state at each step.
        interval: of the mean.
        first_stage: shape (m,), means of the first stage's own order.
    """

    measures: Sequence[str]
    docs: NDArray[np.int64]
    costs: FloatArray
    per_query: FloatArray
    interval: Interval
    first_stage: FloatArray

    @property
    def low(self) -> FloatArray:
        """Lower ends of the bootstrap interval of the mean, shape (s, m)."""
        return self.interval.low

    @property
    def high(self) -> FloatArray:
        """Upper ends of it, shape (s, m)."""
        return self.interval.high

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
        costs[0] += spent  # one sum, which is rounded the same whatever the parts
        spent = costs.sum(axis=0)
        values.extend(part.values[at])
    per_query = values.whole()
    n, interval = len(per_query), bootstrap.interval(per_query)
    return Curve(measures, docs, spent / n, per_query, interval, first_stage / n)


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
    """Random samples of n queries in blocks of at most :data:`_WEIGHTS` numbers; few are drawn once for all callers."""
    at_once, rng = max(_WEIGHTS // n, 1), np.random.default_rng(seed)
    kept = _drawn(draw, n, samples, seed) if samples * n <= _KEPT else None
    for start in range(0, samples, at_once):
        count = min(at_once, samples - start)
        yield _small(draw, rng, n, count) if kept is None else kept[start : start + count]


@lru_cache(maxsize=2)
def _drawn(draw: Draw, n: int, samples: int, seed: int) -> NDArray[np.int8]:
    return _small(draw, np.random.default_rng(seed), n, samples)


def _small(draw: Draw, rng: np.random.Generator, n: int, samples: int) -> NDArray[np.int8]:
    numbers, at_once = np.empty((samples, n), dtype=np.int8), max(_DRAWN // n, 1)
    for start in range(0, samples, at_once):
        numbers[start : start + at_once] = draw(rng, n, min(at_once, samples - start))
    return numbers


def _counts(rng: np.random.Generator, n: int, samples: int) -> NDArray[Any]:
    if n <= _FEW:
        return rng.multinomial(n, np.full(n, 1.0 / n), size=samples)
    picked = rng.integers(n, size=(samples, n)) + np.arange(0, samples * n, n)[:, None]
    return np.bincount(picked.ravel(), minlength=samples * n).reshape(samples, n)


_FEW = 2048
"""Queries up to which counts are drawn by a multinomial distribution, as all once were: published intervals stay what
they are. Of more, each query is picked by itself, which has the same distribution and takes a tenth of the time."""


class Bootstrap:
    """Percentile bootstrap intervals of means over the same queries (Efron and Tibshirani 1993).

    Of many queries, samples take long to draw and are too many to keep: they are drawn once for all intervals that were
    asked for before the first is looked at.

    Args:
        resamples: bootstrap samples, >= 1.
        level: of the intervals, in (0, 1).
        seed: seed of the samples.
    """

    def __init__(self, *, resamples: int, level: float, seed: int) -> None:
        self.resamples, self.level, self.seed = resamples, level, seed
        self._asked: list[Interval] = []

    def interval(self, per_query: FloatArray) -> Interval:
        """The interval of the means of values that have the queries along axis 0."""
        self._asked.append(interval := Interval(self, per_query))
        return interval

    def draw(self) -> None:
        """Find the ends of all intervals that were asked for."""
        asked, self._asked = self._asked, []
        means: list[list[FloatArray]] = [[] for _ in asked]
        n, tail = len(asked[0].per_query), (1.0 - self.level) / 2.0
        for counts in in_blocks(_counts, n, self.resamples, self.seed):
            weights = counts / n
            for some, interval in zip(means, asked, strict=True):
                some.append(np.tensordot(weights, interval.per_query, axes=1))
        for some, interval in zip(means, asked, strict=True):
            interval.ends = np.quantile(np.concatenate(some), [tail, 1.0 - tail], axis=0)


class Interval:
    """An interval of a :class:`Bootstrap`.

    Attributes:
        per_query: values, queries along axis 0.
        ends: the lower and the upper ones, each of the shape of one query's values; empty before they are looked at.
    """

    def __init__(self, bootstrap: Bootstrap, per_query: FloatArray) -> None:
        self._bootstrap = bootstrap
        self.per_query = per_query
        self.ends: FloatArray = np.empty(0)

    @property
    def low(self) -> FloatArray:
        """Lower ends."""
        low: FloatArray = self._found()[0]
        return low

    @property
    def high(self) -> FloatArray:
        """Upper ends."""
        high: FloatArray = self._found()[1]
        return high

    def _found(self) -> FloatArray:
        if not len(self.ends):
            self._bootstrap.draw()
        return self.ends


def bootstrap_interval(
    per_query: FloatArray, *, resamples: int, level: float, seed: int
) -> tuple[FloatArray, FloatArray]:
    """The lower and upper ends of a single interval, see :class:`Bootstrap`."""
    interval = Bootstrap(resamples=resamples, level=level, seed=seed).interval(per_query)
    return interval.low, interval.high
