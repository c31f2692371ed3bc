"""Bootstrap intervals, paired tests, corrections and fronts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragtune.core.arrays import FloatArray
from ragtune.core.statistics import SIGNIFICANT as SIGNIFICANT
from ragtune.core.statistics import holm as holm

TIE = 1e-9
"""Differences up to this are rounding: the queries are tied."""

Draw = Callable[[np.random.Generator, int, int], NDArray[Any]]
"""Draws random samples of n queries: counts or signs of shape (samples, n), all of which a byte can hold."""

_WEIGHTS = 2_000_000
"""Numbers that are drawn at once, so that memory does not grow with the number of samples."""


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
    """Percentile bootstrap intervals of means over the same queries (Efron and Tibshirani 1993)."""

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


def paired_tests(differences: FloatArray, *, permutations: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Two-sided p-values of the hypothesis that the mean of a column of differences is 0, shape (t,) each.

    They are of the paired t-test and of Fisher's randomization test (Smucker et al., CIKM 2007).
    """
    from scipy.stats import ttest_1samp

    q, t = differences.shape
    same = (np.abs(differences) <= TIE).all(axis=0)
    p_t = np.ones(t)
    if q > 1 and not same.all():
        with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # nearly equal differences: p is nearly 0, as it should be
            p_t[~same] = np.nan_to_num(ttest_1samp(differences[:, ~same], 0.0).pvalue, nan=1.0)
    return p_t, randomization_test(differences, permutations=permutations, seed=seed)


def randomization_test(differences: FloatArray, *, permutations: int, seed: int) -> FloatArray:
    """The second of :func:`paired_tests` alone, shape (t,)."""
    same = np.maximum(differences.max(axis=0), -differences.min(axis=0)) <= TIE  # no second array of their size
    signs = in_blocks(_signs, len(differences), permutations, seed)
    observed = np.abs(differences.sum(axis=0))
    as_extreme = sum((np.abs(some.astype(float) @ differences) >= observed - TIE).sum(axis=0) for some in signs)
    p: FloatArray = np.where(same, 1.0, (1.0 + as_extreme) / (1.0 + permutations))
    return p


def _signs(rng: np.random.Generator, n: int, samples: int) -> NDArray[Any]:
    return rng.integers(0, 2, size=(samples, n)) * 2 - 1


PERMUTATIONS = 9999
"""Random sign vectors where a correction for many comparisons follows: no p-value is below a ten-thousandth."""


def wins_losses_ties(differences: FloatArray) -> tuple[int, int, int]:
    """Number of queries above, below and equal to the reference, from differences of shape (q,)."""
    wins, losses = int((differences > TIE).sum()), int((differences < -TIE).sum())
    return wins, losses, len(differences) - wins - losses


def pareto_front(costs: ArrayLike, qualities: ArrayLike) -> NDArray[np.bool_]:
    """Which of n points no other point dominates: none has at most its cost, at least its quality, and one better."""
    cost, quality = np.asarray(costs, dtype=float), np.asarray(qualities, dtype=float)
    no_worse = (cost[:, None] <= cost) & (quality[:, None] >= quality)
    better = (cost[:, None] < cost) | (quality[:, None] > quality)
    return np.asarray(~(no_worse & better).any(axis=0))


def cost_to_reach(
    costs: FloatArray, quality: FloatArray, goal: float, *, stepwise: bool = False
) -> tuple[float | None, bool]:
    """Cheapest cost at which the curve reaches ``goal`` (None: never), and whether less might do."""
    reached = np.flatnonzero(quality >= goal - TIE)
    if not len(reached):
        return None, False
    i = int(reached[0])
    if i == 0 or stepwise:
        return float(costs[i]), i == 0 and bool(costs[0] > 0)
    rise = quality[i] - quality[i - 1]
    share = 1.0 if rise <= 0 else min(1.0, (goal - quality[i - 1]) / rise)
    return float(costs[i - 1] + share * (costs[i] - costs[i - 1])), False
