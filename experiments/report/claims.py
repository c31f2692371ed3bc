"""Holds a study to a claim: on each collection, it holds, it fails, or so few queries cannot tell."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from experiments.evaluate.curves import FloatArray
from experiments.evaluate.significance import SIGNIFICANT, TIE, holm, paired_tests
from experiments.report.families import means_by_family
from experiments.report.study import Claim, Collection, Study, column_of
from experiments.report.tables import ends, resampled_means
from ragtune.core.errors import ConfigError

POWER = 0.8
"""Probability with which the reported number of queries would decide."""


class Verdict(StrEnum):
    """What is known of a claim on a collection."""

    HOLDS = "holds"
    FAILS = "fails"
    OPEN = "open"


@dataclass(frozen=True)
class Finding:
    """A claim on one collection; ``needed`` queries would decide it if differences and deviations stay the same."""

    verdict: Verdict
    p: float
    needed: float


@dataclass(frozen=True)
class Held:
    """A claim with its result."""

    claim: Claim
    rows: Any  # one for each comparison (collection, other policy, budget)
    short: Sequence[str]  # collections whose point estimates are below the claim
    order: Sequence[str]  # all collections, the worst first
    findings: Mapping[str, Finding]
    queries: Mapping[str, int]
    mean: float  # over the rows of a pair, the pairs of a collection, the collections of a family, and the families
    low: float
    high: float


def held(study: Study, claim: Claim) -> Held | None:
    """Compare the study's figures with a claim; None if it is about none of the study's collections."""
    import pandas as pd

    rows: list[dict[str, Any]] = []
    means: dict[str, FloatArray] = {}
    resampled: dict[str, FloatArray] = {}
    for collection in (c for c in study.collections if claim.is_about(c.name, c.plain)):
        compared, differences = _compared(study, claim, collection)
        drawn = resampled_means(study, collection, differences)
        rows += _rows(study, claim, collection, compared, differences, drawn)
        means[collection.name] = np.asarray(differences.mean())
        resampled[collection.name] = drawn.mean(axis=1)
    if not rows:
        return None
    low, high = ends(study, np.mean([*means_by_family(study.collections, resampled).values()], axis=0))
    mean = float(np.mean([*means_by_family(study.collections, means).values()]))
    table = pd.DataFrame(rows)
    worst = table.groupby("collection", sort=False)["difference"].min()
    order = sorted(worst.index, key=lambda name: worst[name])
    return Held(
        claim,
        table,
        short=[name for name in order if worst[name] < -claim.margin - TIE],
        order=order,
        findings=findings(table),
        queries={name: len(c.queries) for c in study.collections if (name := c.name) in order},
        mean=mean,
        low=float(low),
        high=float(high),
    )


def _rows(
    study: Study,
    claim: Claim,
    collection: Collection,
    compared: Sequence[Mapping[str, Any]],
    differences: FloatArray,
    drawn: FloatArray,
) -> list[dict[str, Any]]:
    low, high = ends(study, drawn)
    tests = paired_tests(differences, permutations=study.permutations, seed=study.seed)
    p_holm = np.maximum(holm(tests.t), holm(tests.randomization))
    sides = side_columns(differences, -claim.margin)
    return [
        {
            "collection": collection.name,
            "group": collection.group,
            "family": collection.family,
            **row,
            "difference": mean,
            "low": low[i],
            "high": high[i],
            "p_holm": p_holm[i],
            "holds": bool(mean >= -claim.margin - TIE),
            **{name: values[i] for name, values in sides.items()},
        }
        for i, (row, mean) in enumerate(zip(compared, differences.mean(axis=0).tolist(), strict=True))
    ]


def _compared(study: Study, claim: Claim, collection: Collection) -> tuple[list[dict[str, Any]], FloatArray]:
    """The policy beside each of the others at each budget, and the differences query by query, shape (q, rows)."""
    theirs = next(c for c in study.collections if c.name == collection.plain) if claim.plain else collection
    if list(theirs.queries) != list(collection.queries):
        raise ConfigError(f"{collection.name!r} and {theirs.name!r} are compared, and judged on other queries")
    rows, differences = [], []
    for other in claim.against:
        for budget in claim.budgets:
            cell = collection.cells[claim.policy, column_of(budget)]
            spent = float(cell.in_unit(study.unit).mean())
            for depth, values in _others(study, claim, theirs, other, budget, spent):
                rows.append({"against": other, "budget": budget, study.unit.name: spent, "depth": depth})
                differences.append(cell.values[:, 0] - values)
    return rows, np.column_stack(differences)


def _others(
    study: Study, claim: Claim, collection: Collection, other: str, budget: float, spent: float
) -> Iterator[tuple[float, FloatArray]]:
    """The budgets of the other policy that a claim compares with, and its values there."""
    if claim.depth == "spent":
        yield spent, _between(study, collection, other, spent)
        return
    depths = [budget if isinstance(claim.depth, str) else claim.depth]
    if claim.depth == "fewer":  # each of them: the best one was picked by the queries that it would be tested on
        depths = [smaller for smaller in claim.budgets if smaller < budget]
    yield from ((depth, collection.cells[other, column_of(depth)].values[:, 0]) for depth in depths)


def _between(study: Study, collection: Collection, policy: str, spent: float) -> FloatArray:
    """Expected values of a policy that draws one of two neighbouring budgets so that it is charged ``spent``."""
    cells = [collection.cells[policy, column] for column in study.columns]
    charged = np.array([cell.in_unit(study.unit).mean() for cell in cells])
    place = float(np.interp(spent, charged, np.arange(len(cells))))
    left, share = int(place), place - int(place)
    right = min(left + 1, len(cells) - 1)
    mixed: FloatArray = (1.0 - share) * cells[left].values[:, 0] + share * cells[right].values[:, 0]
    return mixed


def side_columns(differences: FloatArray, line: float) -> dict[str, FloatArray]:
    """On which side of ``line`` the means of differences, shape (q, t), lie, by the t-test, since most queries tie."""
    from scipy.stats import t as student

    q = len(differences)
    distance = differences.mean(axis=0) - line
    distance = np.where(np.abs(distance) <= TIE, 0.0, distance)
    deviation = differences.std(axis=0, ddof=1) if q > 1 else np.full(len(distance), np.inf)
    alike = deviation <= TIE
    effect = distance / np.where(alike, 1.0, deviation)
    statistic, freedom = effect * math.sqrt(q), max(q - 1, 1)
    p_below = np.where(alike, np.where(distance < 0.0, 0.5**q, 1.0), student.cdf(statistic, freedom))
    p_above = np.where(alike, np.where(distance > 0.0, 0.5**q, 1.0), student.sf(statistic, freedom))
    return {
        "p_below": np.minimum(1.0, 2.0 * p_below),
        "p_above": np.minimum(1.0, 2.0 * p_above),
        "effect": np.where(alike & (distance != 0.0), np.copysign(np.inf, distance), effect),
    }


def findings(rows: Any) -> Mapping[str, Finding]:
    """What a claim's comparisons prove, by collection: that all lie above its line, or that one lies below it."""
    collections = {str(name): mine for name, mine in rows.groupby("collection", sort=False)}
    proven = holm([mine["p_above"].max() for mine in collections.values()])
    refuted = holm([min(1.0, len(mine) * mine["p_below"].min()) for mine in collections.values()])
    found = {}
    for i, (name, mine) in enumerate(collections.items()):
        verdict = Verdict.HOLDS if proven[i] < SIGNIFICANT else Verdict.OPEN
        verdict = Verdict.FAILS if refuted[i] < SIGNIFICANT else verdict
        effect, tests = float(mine["effect"].min()), len(collections)
        needed = _queries(effect, tests) if effect > 0.0 else _queries(-effect, tests * len(mine))
        found[name] = Finding(verdict, float(min(proven[i], refuted[i])), needed)
    return found


def _queries(effect: float, tests: int) -> float:
    """Queries that a test needs at a corrected level, by the normal approximation; infinity for an effect <= 0."""
    from scipy.stats import norm

    if effect <= 0.0:
        return math.inf
    quantiles = norm.isf(SIGNIFICANT / (2 * tests)) + norm.ppf(POWER)
    return float(max(2.0, math.ceil((quantiles / effect) ** 2)))
