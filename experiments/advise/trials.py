"""Tries the rule on itself: it chooses by some of the queries, and is looked at on the others."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.advise.choose import Bounds, Options, bounds, choose, shares

_SMALL = 1e-12


@dataclass(frozen=True)
class Trial:
    """The rule used on some queries and looked at on others.

    Attributes:
        option: what it chose.
        expected: what it kept where it was chosen, and the interval that as many other queries should fall into.
        kept: what it kept on the others, of the target that was found where it was chosen.
        wanted: the share that it should keep there: more than all where the first stage is the target.
        saved: share of the cost of reranking everything that it saved there.
    """

    option: int
    expected: tuple[float, float, float]
    kept: float
    wanted: float
    saved: float

    @property
    def promise(self) -> bool:
        """Whether it kept the share that was wanted."""
        return self.kept >= self.wanted

    @property
    def holds(self) -> bool:
        """Whether what it kept lies in the interval."""
        return self.expected[1] - _SMALL <= self.kept <= self.expected[2] + _SMALL


def halvings(
    options: Options, quality: float, count: int, *, resamples: int, level: float, seed: int
) -> Iterator[Trial]:
    """Choose on a random half of the queries and look at the other half, ``count`` times."""
    for one, other in halves(len(options.values), count, seed):
        yield trial(options, one, other, quality, resamples=resamples, level=level, seed=seed)


def halves(queries: int, count: int, seed: int) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Random halves of the queries, by their positions, ``count`` times."""
    draws = np.random.default_rng(seed)
    for _ in range(count):
        drawn = draws.permutation(queries)
        yield np.sort(drawn[: queries // 2]), np.sort(drawn[queries // 2 :])


def trial(
    options: Options,
    one: NDArray[np.intp],
    other: NDArray[np.intp],
    quality: float,
    *,
    resamples: int,
    level: float,
    seed: int,
) -> Trial:
    """Choose by some queries, and look at what the option does on others; both by their positions."""
    chosen_by, others = options.of(one), options.of(other)
    known = bounds(chosen_by, resamples=resamples, level=level, seed=seed)
    chosen = choose(chosen_by, known, quality)
    kept = others.values[:, chosen].mean() / max(float(others.values[:, known.target].mean()), _SMALL)
    costs = others.costs[others.unit].mean(axis=0)
    saved = 1.0 - costs[chosen] / max(float(costs[others.full]), _SMALL)
    wanted = quality if known.target == others.full else 1.0
    return Trial(chosen, on_others(known, chosen, len(other)), float(kept), wanted, float(saved))


def on_others(known: Bounds, option: int, count: int) -> tuple[float, float, float]:
    """What an option kept, and the interval of what it keeps on ``count`` other queries: both samples are random."""
    kept, error = float(known.kept[option]), float(known.spread[option])
    half = known.factor * error * math.sqrt(1.0 / known.queries + 1.0 / count)
    return kept, kept - half, kept + half


def held_out(
    options: Options, quality: float, folds: int, *, resamples: int, level: float, seed: int
) -> tuple[float, float, float]:
    """What the rule keeps on queries that it has not seen: share, and interval by Student's t.

    Each of the folds is looked at under the option that the others chose (cross-fitting), so that nothing is measured
    where it was picked.
    """
    from scipy.stats import t

    n = len(options.values)
    drawn = np.random.default_rng(seed).permutation(n)
    values = np.empty((n, 1))
    for fold in np.array_split(drawn, min(folds, n // 2)):
        rest = options.of(np.setdiff1d(drawn, fold))
        chosen = choose(rest, bounds(rest, resamples=resamples, level=level, seed=seed), quality)
        values[fold, 0] = options.values[fold, chosen]
    kept, residuals = shares(values, options.values[:, options.target])
    half = float(t.ppf(0.5 + level / 2.0, n - 1)) * float(residuals.std(ddof=1)) / math.sqrt(n)
    return float(kept[0]), float(kept[0]) - half, float(kept[0]) + half
