"""The rule that chooses: the cheapest option that is shown to keep the quality, by bounds that hold for all at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.evaluate.curves import FloatArray
from experiments.study.advise.options import FIXED, Candidate
from experiments.study.advise.prices import Prices, Work
from experiments.study.advise.replays import Curve, Replays
from ragtune.core.errors import ConfigError

POWER_Z = 0.8416
"""Normal quantile of a chance of 80% to show what is so."""

ENOUGH = 5
"""Queries of some quality, everything reranked, below which nothing is told: of fewer no spread can be seen."""

_SMALL = 1e-12


@dataclass(frozen=True)
class Option:
    """A policy with a batch size and a budget; ``is_full`` for fixed depth at the whole pool, the reference."""

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
        full: which of them is the reference.
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
    def deployable(self) -> NDArray[np.bool_]:
        """Which of them the facade and the server have."""
        return np.array([option.candidate.deployable for option in self.options])


def options_of(replays: Replays, prices: Prices, unit: str) -> Options:
    """All options of the replayed policies.

    Raises:
        ConfigError: if reranking everything is worth 0 by the headline measure.
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
    if values[full].mean() <= 0.0:
        uncovered, queries = replays.uncovered, len(replays.queries)
        because = f"; {uncovered} of {queries} queries have no candidates" if uncovered else ""
        raise ConfigError(
            f"reranking everything reaches {replays.measures[0]} 0 on every query: there is no quality to keep{because}"
        )
    return Options(options, np.stack(values, axis=1), prices.bill(work), full, unit, work)


def _same(curve: Curve, one: int, other: int) -> bool:
    """Whether two budgets of a policy give the same results for the same work on every query."""
    columns = (*curve.work, curve.values[:, :, 0])
    return all(np.array_equal(column[:, one], column[:, other]) for column in columns)


@dataclass(frozen=True)
class Bounds:
    """What is known of each option's quality kept, as a share of reranking everything; shape (o,) each.

    Attributes:
        kept: the share.
        low, high: ends of its interval (see :func:`bounds`).
        spread: standard deviation of a query, as a share too.
        factor: standard errors from the share to the ends.
        queries: how many there are.
        telling: how many of them have any quality where everything is reranked; of the others nothing can be kept.
        differ: whether the queries differ in what any option keeps of them.
    """

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

    Errors are those of a ratio, whose denominator is random as well. Options that hardly differ from the reference on
    these queries may on others: each is judged as if one query more had changed, by as much as changed queries do.
    Where all queries say the same, as many others may lose all as have not been excluded (the rule of three: Hanley and
    Lippman-Hand, JAMA 1983). Ends are NaN with fewer than :data:`ENOUGH` queries that tell anything.

    Args:
        options: at least two queries.
        resamples: bootstrap samples, >= 1.
        level: chance that all lower ends hold, in (0, 1); upper ends are as far away.
        seed: of the samples.
    """
    n = len(options.values)
    full = options.values[:, options.full]
    kept, residuals = _kept(options.values, full)
    telling = int((full > _SMALL).sum())
    changed = np.abs(residuals) > _SMALL
    typical = float((residuals[changed] ** 2).mean()) if changed.any() else 0.0
    spread = np.sqrt(((residuals**2).sum(axis=0) + typical) / (n - 1))
    if telling < ENOUGH:
        spread[:] = math.nan
    elif not changed.any():
        spread[:] = math.sqrt(n) * (1.0 - (1.0 - level) ** (1.0 / telling))
    spread[options.full] = 0.0
    error = spread / math.sqrt(n)
    weights = np.random.default_rng(seed).multinomial(n, np.full(n, 1.0 / n), size=resamples) / n
    family = options.deployable & (error > 0.0) if changed.any() else np.zeros(len(kept), dtype=bool)
    drawn = residuals[:, family]
    means = weights @ drawn
    errors = np.sqrt((weights @ drawn**2 - means**2 + typical / n) / (n - 1))
    largest = (means / errors).max(axis=1) if family.any() else np.ones(1)
    factor = max(0.0, float(np.quantile(largest, level)))
    ends = (kept - factor * error, kept + factor * error)
    return Bounds(kept, *ends, spread, factor, n, telling, bool(changed.any()))


def _kept(values: FloatArray, full: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The share of full quality that each column keeps, and the residuals of the queries, which are shares too."""
    scale = max(float(full.mean()), _SMALL)
    kept = values.mean(axis=0) / scale
    return kept, (values - kept * full[:, None]) / scale


def choose(options: Options, known: Bounds, quality: float) -> int:
    """The cheapest option that the facade and the server have and that is shown to keep ``quality``.

    Reranking everything always is one, so there always is a choice.
    """
    shown = (known.low >= quality - _SMALL) & options.deployable
    shown[options.full] = True
    return options.order(shown)[0]


def missing_queries(known: Bounds, quality: float, level: float) -> int:
    """About how many queries like these must come before anything can be told; 0 if it can."""
    needed = ENOUGH
    if not known.differ and quality < 1.0:
        needed = max(needed, math.ceil(math.log(1.0 - level) / math.log(quality)))
    return max(0, math.ceil((needed - known.telling) * known.queries / max(known.telling, 1)))


@dataclass(frozen=True)
class Open:
    """A cheaper option that may keep the quality, and the further queries that would show it with a chance of 80%."""

    option: int
    more_queries: int


def open_questions(options: Options, known: Bounds, chosen: int, quality: float) -> list[Open]:
    """What more queries could show, if they are like these: the cheapest option first, each later one with fewer more.

    Args:
        options: all options.
        known: what is known of them.
        chosen: the recommended one; only cheaper ones are asked about.
        quality: the share that shall be kept.
    """
    cost = options.costs[options.unit].mean(axis=0)
    cheaper = (cost < cost[chosen] - _SMALL) & options.deployable & (known.kept > quality + _SMALL)
    cheaper &= known.low < quality
    fewest = math.inf
    front = []
    for i in options.order(cheaper):
        needed = ((known.factor + POWER_Z) * known.spread[i] / (known.kept[i] - quality)) ** 2
        more = max(1, math.ceil(needed) - known.queries)
        if more < fewest:
            fewest = more
            front.append(Open(i, more))
    return front


@dataclass(frozen=True)
class Trial:
    """The rule used on some queries and looked at on others.

    Attributes:
        option: what it chose.
        expected: what it kept where it was chosen, and the interval that as many other queries should fall into.
        kept: what it kept on the others.
        saved: share of the cost of reranking everything that it saved there.
    """

    option: int
    expected: tuple[float, float, float]
    kept: float
    saved: float

    @property
    def holds(self) -> bool:
        """Whether what it kept lies in the interval."""
        return self.expected[1] - _SMALL <= self.kept <= self.expected[2] + _SMALL


def halvings(
    options: Options, quality: float, count: int, *, resamples: int, level: float, seed: int
) -> Iterator[Trial]:
    """Choose on a random half of the queries and look at the other half, ``count`` times."""
    draws = np.random.default_rng(seed)
    n = len(options.values)
    for _ in range(count):
        drawn = draws.permutation(n)
        one, other = options.of(np.sort(drawn[: n // 2])), options.of(np.sort(drawn[n // 2 :]))
        known = bounds(one, resamples=resamples, level=level, seed=seed)
        yield trial(other, known, choose(one, known, quality))


def trial(others: Options, known: Bounds, chosen: int) -> Trial:
    """What an option does on other queries than those that it was chosen by."""
    expected = on_others(known, chosen, len(others.values))
    kept = others.values[:, chosen].mean() / max(float(others.values[:, others.full].mean()), _SMALL)
    costs = others.costs[others.unit].mean(axis=0)
    saved = 1.0 - costs[chosen] / max(float(costs[others.full]), _SMALL)
    return Trial(chosen, expected, float(kept), float(saved))


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
    folds = min(folds, n // 2)
    if folds < 2:
        return math.nan, math.nan, math.nan
    drawn = np.random.default_rng(seed).permutation(n)
    values = np.empty((n, 1))
    for fold in np.array_split(drawn, folds):
        rest = options.of(np.setdiff1d(drawn, fold))
        chosen = choose(rest, bounds(rest, resamples=resamples, level=level, seed=seed), quality)
        values[fold, 0] = options.values[fold, chosen]
    kept, residuals = _kept(values, options.values[:, options.full])
    half = float(t.ppf(0.5 + level / 2.0, n - 1)) * float(residuals.std(ddof=1)) / math.sqrt(n)
    return float(kept[0]), float(kept[0]) - half, float(kept[0]) + half
