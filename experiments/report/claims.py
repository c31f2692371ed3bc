"""Holds a study to a claim: on each collection, where a policy stands against others, with intervals and tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.evaluate.curves import FloatArray
from experiments.evaluate.significance import SIGNIFICANT, TIE, holm, paired_tests
from experiments.report.study import Claim, Collection, Study, column_of
from experiments.report.tables import ends, resampled_means
from experiments.report.verdicts import Finding, findings, side_columns
from ragtune.core.errors import ConfigError


@dataclass(frozen=True)
class Held:
    """A claim with its result.

    Attributes:
        rows: a table with a row for each comparison (collection, other policy, budget): the policy's mean charge, the
            others' ``depth``, the ``difference`` in the headline with its interval, ``p_holm`` (the larger p-value of
            both tests), ``holds`` (not below by more than the margin), ``ahead`` (significantly above), and
            :func:`side_columns`.
        short: names of the collections whose point estimates are below the claim, the worst first.
        order: names of all its collections, the worst first.
        by_chance: by collection, the share of the resamples in which it would be below the claim if all true
            differences were 0. NaN for a claim that asks for significance.
        mean, low, high: mean difference over the rows of a collection, the collections of a group, and the groups.
    """

    claim: Claim
    rows: Any
    short: Sequence[str]
    order: Sequence[str]
    findings: Mapping[str, Finding]
    queries: Mapping[str, int]
    by_chance: Mapping[str, float]
    mean: float
    low: float
    high: float


def held(study: Study, claim: Claim) -> Held | None:
    """Compare the study's figures with a claim; None if it is about none of the study's collections."""
    import pandas as pd

    rows: list[dict[str, Any]] = []
    means: dict[str, list[float]] = {}
    resampled: dict[str, list[FloatArray]] = {}
    by_chance: dict[str, float] = {}
    for collection in (c for c in study.collections if claim.is_about(c.name, c.plain)):
        compared, differences = _compared(study, claim, collection)
        drawn = resampled_means(study, collection, differences)
        rows += _rows(study, claim, collection, compared, differences, drawn)
        means.setdefault(collection.group, []).append(float(differences.mean()))
        resampled.setdefault(collection.group, []).append(drawn.mean(axis=1))
        below = (drawn - differences.mean(axis=0) < -claim.margin - TIE).any(axis=1)
        by_chance[collection.name] = float(below.mean()) if claim.ahead is None else np.nan
    if not rows:
        return None
    low, high = ends(study, np.mean([np.mean(group, axis=0) for group in resampled.values()], axis=0))
    mean = float(np.mean([np.mean(group) for group in means.values()]))
    table = pd.DataFrame(rows)
    standing = {str(name): _standing(claim, mine) for name, mine in table.groupby("collection", sort=False)}
    order = sorted(standing, key=lambda name: standing[name])
    return Held(
        claim,
        table,
        short=[name for name in order if standing[name][0] < 0],
        order=order,
        findings=findings(table, 1.0 if claim.ahead is None else claim.ahead),
        queries={name: len(c.queries) for c in study.collections if (name := c.name) in standing},
        by_chance=by_chance,
        mean=mean,
        low=float(low),
        high=float(high),
    )


def _standing(claim: Claim, rows: Any) -> tuple[float, float]:
    """Sort key of a collection: what it lacks, negative where it is below the claim, and its worst difference."""
    worst = float(rows["difference"].min())
    if claim.ahead is not None:
        return float(rows.groupby("against")["ahead"].mean().min()) - claim.ahead, worst
    return (worst if not rows["holds"].all() else 0.0), worst


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
    sides = side_columns(differences, -claim.margin if claim.ahead is None else 0.0)
    return [
        {
            "collection": collection.name,
            "group": collection.group,
            **row,
            "difference": mean,
            "low": low[i],
            "high": high[i],
            "p_holm": p_holm[i],
            "holds": bool(mean >= -claim.margin - TIE),
            "ahead": bool(mean > 0 and p_holm[i] < SIGNIFICANT),
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
    """Expected values of a policy that draws one of two neighbouring budgets so as to be charged ``spent`` on average.

    Outside of the study's budgets it is the nearest one.
    """
    cells = [collection.cells[policy, column] for column in study.columns]
    charged = np.array([cell.in_unit(study.unit).mean() for cell in cells])
    place = float(np.interp(spent, charged, np.arange(len(cells))))
    left, share = int(place), place - int(place)
    right = min(left + 1, len(cells) - 1)
    mixed: FloatArray = (1.0 - share) * cells[left].values[:, 0] + share * cells[right].values[:, 0]
    return mixed
