"""The rule that chooses: the cheapest option that is shown to keep the quality, by bounds that hold for all at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.advise.options import FIXED, PolicyOption
from experiments.advise.replays import ENOUGH, PolicyCurve, Replays
from experiments.evaluate.curves import FloatArray
from experiments.report.prices import Prices, Work
from ragtune.core.errors import ConfigError

POWER_Z = 0.8416

_SMALL = 1e-12


@dataclass(frozen=True)
class Option:
    """A policy with a batch size and a budget; ``is_full`` for fixed depth at the whole pool."""

    candidate: PolicyOption
    budget: int
    is_full: bool = False

    @property
    def label(self) -> str:
        if not self.budget:
            return "no reranking"
        return "everything, in one call" if self.is_full else f"{self.candidate.label}, {self.budget} documents"


@dataclass(frozen=True)
class Options:
    """All o options on all q queries."""

    options: Sequence[Option]
    values: FloatArray  # shape (q, o), the headline measure
    costs: dict[str, FloatArray]  # by unit, shape (q, o); "cheap" means the unit ``unit``
    full: int  # position of the option that reranks everything
    unit: str
    work: Work  # arrays of shape (q, o)

    def of(self, queries: NDArray[np.intp]) -> Options:
        costs = {unit: cost[queries] for unit, cost in self.costs.items()}
        work = Work(*(part[queries] for part in self.work))
        return Options(self.options, self.values[queries], costs, self.full, self.unit, work)

    def order(self, eligible: NDArray[np.bool_]) -> list[int]:
        """Eligible options, cheapest first; of equally cheap ones the better one, then the one with fewer documents."""
        means = [np.round(c.mean(axis=0), 9) for c in (self.costs["docs"], -self.values, self.costs[self.unit])]
        return [int(i) for i in np.lexsort(means) if eligible[i]]

    @property
    def nothing(self) -> int:
        return next(i for i, option in enumerate(self.options) if not option.budget)

    @property
    def target(self) -> int:
        """The option that quality is compared with: the first stage if full reranking is no better, else that."""
        means = self.values.mean(axis=0)
        return self.nothing if means[self.nothing] >= means[self.full] - _SMALL else self.full


def options_of(replays: Replays, prices: Prices, unit: str) -> Options:
    """All options of the replayed policies."""
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


def _same(curve: PolicyCurve, one: int, other: int) -> bool:
    """Whether two budgets of a policy give the same results for the same work on every query."""
    columns = (*curve.work, curve.values[:, :, 0])
    return all(np.array_equal(column[:, one], column[:, other]) for column in columns)


@dataclass(frozen=True)
class Bounds:
    """Each option's quality kept, as a share of the target's; shape (o,) each."""

    target: int
    kept: FloatArray
    low: FloatArray  # ends of the interval, ``factor`` standard errors away
    high: FloatArray
    spread: FloatArray  # standard deviation of a query
    factor: float
    queries: int
    telling: int  # queries for which the target has any quality
    differ: bool  # whether the queries differ in the share that any option keeps


def bounds(options: Options, *, resamples: int, level: float, seed: int) -> Bounds:
    """Shares kept, with ends that hold for all options at once (max-t: Romano and Wolf, 2005); NaN if too few tell."""
    n, target = len(options.values), options.target
    wanted = options.values[:, target]
    scale = max(float(wanted.mean()), _SMALL)
    kept = options.values.mean(axis=0) / scale
    residuals = (options.values - kept * wanted[:, None]) / scale
    telling = int((wanted > _SMALL).sum())
    changed = np.abs(residuals) > _SMALL
    typical = float((residuals[changed] ** 2).mean()) if changed.any() else 0.0
    spread = np.sqrt(((residuals**2).sum(axis=0) + typical) / (n - 1))  # as if one query more had changed
    if telling < ENOUGH:
        spread[:] = math.nan
    elif not changed.any():
        spread[:] = math.sqrt(n) * (1.0 - (1.0 - level) ** (1.0 / telling))  # rule of three: Hanley, JAMA 1983
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


def cheapest(options: Options, known: Bounds, quality: float) -> int | None:
    """The cheapest option shown to keep ``quality`` (to be better, if the first stage is the target); None if none."""
    shown = known.low >= quality - _SMALL
    if known.target != options.full:
        shown &= known.low > 1.0 + _SMALL
    return next(iter(options.order(shown)), None)


def choose(options: Options, known: Bounds, quality: float) -> int:
    """The cheapest option that is shown to keep ``quality``, else the target; no reranking if that is better still."""
    found = cheapest(options, known, quality)
    if found is None:
        return known.target
    return options.nothing if known.kept[found] < known.kept[options.nothing] else found


def nearest_question(options: Options, known: Bounds, chosen: int, quality: float) -> tuple[int, int] | None:
    """The cheaper option that needs the fewest further queries to show (by 80%) that it keeps quality, and how many."""
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
