"""The rule that chooses: the cheapest option that is shown to keep the quality, by bounds that hold for all at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.advise.enough import ENOUGH
from experiments.advise.options import FIXED, Candidate
from experiments.advise.replays import Curve, Replays
from experiments.evaluate.curves import FloatArray
from experiments.report.prices import Prices, Work
from ragtune.core.errors import ConfigError

POWER_Z = 0.8416
"""Normal quantile of a chance of 80% to show what is so."""

_SMALL = 1e-12


@dataclass(frozen=True)
class Option:
    """A policy with a batch size and a budget; ``is_full`` for fixed depth at the whole pool."""

    candidate: Candidate
    budget: int
    is_full: bool = False

    @property
    def is_nothing(self) -> bool:
        """Whether it leaves the first stage's order alone."""
        return self.budget == 0

    @property
    def label(self) -> str:
        """Its name in tables."""
        if self.is_nothing:
            return "no reranking"
        return "everything, in one call" if self.is_full else f"{self.candidate.label}, {self.budget} documents"


@dataclass(frozen=True)
class Options:
    """All options on all queries.

    Attributes:
        options: o of them.
        values: shape (q, o), the headline measure.
        costs: by unit, arrays of shape (q, o).
        full: which of them reranks everything.
        unit: what "cheap" means.
        work: what the reranker did, arrays of shape (q, o).
    """

    options: Sequence[Option]
    values: FloatArray
    costs: dict[str, FloatArray]
    full: int
    unit: str
    work: Work

    def of(self, queries: NDArray[np.intp]) -> Options:
        """The same on some of the queries, by their positions."""
        costs = {unit: cost[queries] for unit, cost in self.costs.items()}
        work = Work(*(part[queries] for part in self.work))
        return Options(self.options, self.values[queries], costs, self.full, self.unit, work)

    def order(self, eligible: NDArray[np.bool_]) -> list[int]:
        """Eligible options, cheapest first; of equally cheap ones the better one, then the one with fewer documents."""
        means = [np.round(c.mean(axis=0), 9) for c in (self.costs["docs"], -self.values, self.costs[self.unit])]
        return [int(i) for i in np.lexsort(means) if eligible[i]]

    @property
    def nothing(self) -> int:
        """Which of them does not rerank."""
        return next(i for i, option in enumerate(self.options) if option.is_nothing)

    @property
    def target(self) -> int:
        """What quality is compared with: the first stage alone where reranking everything is no better, else that."""
        means = self.values.mean(axis=0)
        return self.nothing if means[self.nothing] >= means[self.full] - _SMALL else self.full


def options_of(replays: Replays, prices: Prices, unit: str) -> Options:
    """All options of the replayed policies.

    Raises:
        ConfigError: if first stage and full reranking are both worth 0 by the headline measure.
    """
    options, values, works = [], [], []
    for name, curve in replays.curves.items():
        for j, budget in enumerate(curve.budgets):
            if j and name != FIXED and _same(curve, j, j - 1):
                continue  # it stopped before: a larger budget changes nothing
            options.append(Option(curve.candidate, budget, name == FIXED and budget == curve.budgets[-1]))
            values.append(curve.values[:, j, 0])
            works.append(Work(*(part[:, j] for part in curve.work)))
    work = Work(*(np.stack(parts, axis=1) for parts in zip(*works, strict=True)))
    full = next(i for i, option in enumerate(options) if option.is_full)
    found = Options(options, np.stack(values, axis=1), prices.bill(work), full, unit, work)
    if found.values[:, found.target].mean() <= 0.0:
        uncovered, queries = replays.uncovered, len(replays.queries)
        because = f"; {uncovered} of {queries} queries have no candidates" if uncovered else ""
        raise ConfigError(
            f"first stage and reranking everything reach {replays.measures[0]} 0 on every query: there is no quality "
            f"to keep{because}"
        )
    return found


def _same(curve: Curve, one: int, other: int) -> bool:
    """Whether two budgets of a policy give the same results for the same work on every query."""
    columns = (*curve.work, curve.values[:, :, 0])
    return all(np.array_equal(column[:, one], column[:, other]) for column in columns)


@dataclass(frozen=True)
class Bounds:
    """What is known of each option's quality kept, as a share of the target's; shape (o,) each.

    Attributes:
        target: see :attr:`Options.target`.
        kept: the share.
        low, high: ends of its interval (see :func:`bounds`).
        spread: standard deviation of a query, as a share too.
        factor: standard errors from the share to the ends.
        queries: how many there are.
        telling: for how many of them the target has any quality; of the others nothing can be kept.
        differ: whether the queries differ in what any option keeps of them.
    """

    target: int
    kept: FloatArray
    low: FloatArray
    high: FloatArray
    spread: FloatArray
    factor: float
    queries: int
    telling: int
    differ: bool


def bounds(options: Options, *, resamples: int, level: float, seed: int) -> Bounds:
    """What the options keep, and lower ends that hold for all that can be chosen at once with the given level.

    The factor is the quantile of what any option seems to keep too much at most, in standard errors of the sample, over
    bootstrap samples of the queries (the max-t method: Romano and Wolf, Econometrica 2005; Chernozhukov, Chetverikov
    and Kato, Annals of Statistics 2013). So whichever option a rule chooses, its lower end holds. A sample that misses
    the rare queries which lose much keeps too much and has a small error too: it is such samples that count.

    Errors are those of a ratio, whose denominator is random as well. Options that hardly differ from the target on
    these queries may on others: each is judged as if one query more had changed, by as much as changed queries do.
    Where all queries say the same, as many others may lose all as have not been excluded (the rule of three: Hanley and
    Lippman-Hand, JAMA 1983). Ends are NaN with fewer than ``ENOUGH`` queries that tell anything.

    Args:
        options: at least two queries.
        resamples: bootstrap samples, >= 1.
        level: chance that all lower ends hold, in (0, 1); upper ends are as far away.
        seed: of the samples.
    """
    n, target = len(options.values), options.target
    wanted = options.values[:, target]
    kept, residuals = shares(options.values, wanted)
    telling = int((wanted > _SMALL).sum())
    changed = np.abs(residuals) > _SMALL
    typical = float((residuals[changed] ** 2).mean()) if changed.any() else 0.0
    spread = np.sqrt(((residuals**2).sum(axis=0) + typical) / (n - 1))
    if telling < ENOUGH:
        spread[:] = math.nan
    elif not changed.any():
        spread[:] = math.sqrt(n) * (1.0 - (1.0 - level) ** (1.0 / telling))
    spread[target] = 0.0
    error = spread / math.sqrt(n)
    weights = np.random.default_rng(seed).multinomial(n, np.full(n, 1.0 / n), size=resamples) / n
    family = error > 0.0 if changed.any() else np.zeros(len(kept), dtype=bool)
    drawn = residuals[:, family]
    means = weights @ drawn
    errors = np.sqrt((weights @ drawn**2 - means**2 + typical / n) / (n - 1))
    largest = (means / errors).max(axis=1) if family.any() else np.ones(1)
    factor = max(0.0, float(np.quantile(largest, level)))
    ends = (kept - factor * error, kept + factor * error)
    return Bounds(target, kept, *ends, spread, factor, n, telling, bool(changed.any()))


def shares(values: FloatArray, wanted: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The share of the target's quality that each column keeps, and the residuals of the queries, which are shares too.

    Args:
        values: shape (q, o).
        wanted: shape (q,), the target's.
    """
    scale = max(float(wanted.mean()), _SMALL)
    kept = values.mean(axis=0) / scale
    return kept, (values - kept * wanted[:, None]) / scale


def cheapest(options: Options, known: Bounds, quality: float) -> int | None:
    """The cheapest option that is shown to keep ``quality``; None if none is.

    Where the first stage is the target, it costs nothing: then only what is shown to be better counts.
    """
    shown = known.low >= quality - _SMALL
    if known.target != options.full:
        shown &= known.low > 1.0 + _SMALL
    return next(iter(options.order(shown)), None)


def choose(options: Options, known: Bounds, quality: float) -> int:
    """The recommended option: the cheapest that is shown to keep ``quality``, unless no reranking is better than it.

    Reranking everything keeps itself, so there is a choice where that is the target. Where the first stage is,
    it is kept unless something is shown to be better.
    """
    found = cheapest(options, known, quality)
    if found is None:
        return known.target
    return options.nothing if known.kept[found] < known.kept[options.nothing] else found


def nearest_question(options: Options, known: Bounds, chosen: int, quality: float) -> tuple[int, int] | None:
    """The option that may keep the quality and needs the fewest further queries to show it, and how many more.

    They show it with a chance of 80%, if they are like these. Only options cheaper than the chosen one are asked about;
    where that is the first stage, those that may be better. None where there is none.
    """
    cost = options.costs[options.unit].mean(axis=0)
    quality = quality if known.target == options.full else 1.0
    asked = (known.kept > quality + _SMALL) & (known.low < quality)
    if known.target == options.full or chosen != known.target:
        asked &= cost < cost[chosen] - _SMALL
    found = []
    for i in options.order(asked):
        needed = ((known.factor + POWER_Z) * known.spread[i] / (known.kept[i] - quality)) ** 2
        found.append((i, max(1, math.ceil(needed) - known.queries)))
    return min(found, key=lambda one: one[1], default=None)


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
