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
    """A claim and what became of it.

    Attributes:
        claim: the claim.
        rows: a table with a row for each (collection, other policy, budget): ``collection``, ``group``, ``against``,
            ``budget``, the study's unit (what the policy was charged of it on average), ``depth`` (what the others were
            allowed or, where the claim says ``spent``, charged), ``difference`` in the headline with the ends ``low``
            and ``high`` of its interval, ``p_holm`` (the larger p-value of the paired t-test and the randomization
            test, each corrected over the rows of the collection), ``holds`` (not below by more than the margin),
            ``ahead`` (significantly above), and what :func:`side_columns` says of the line that is not to be crossed.
        short: names of the collections on which the figures as measured fall short of the claim, the worst first.
        order: names of all its collections, the worst first.
        findings: by collection, what these figures prove.
        queries: by collection, the number of queries.
        by_chance: by collection, the share of the resamples in which it falls short as measured though nothing differs:
            the mean difference of every comparison is taken to be 0. NaN for a claim that asks for significance.
        mean, low, high: mean difference over the rows of a collection, the collections of a group, and the groups, with
            its interval.
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
    """Compare the study's figures with a claim; None if it is about none of the study's collections.

    Raises:
        ConfigError: if two collections that are compared were judged on other queries.
    """
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
        by_chance[collection.name] = _by_chance(claim, drawn - differences.mean(axis=0))
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
    """What collections are ordered by, the first negative where they fall short: the largest lack, the difference."""
    worst = float(rows["difference"].min())
    if claim.ahead is not None:
        return float(rows.groupby("against")["ahead"].mean().min()) - claim.ahead, worst
    return (worst if not rows["holds"].all() else 0.0), worst


def _by_chance(claim: Claim, noise: FloatArray) -> float:
    """Share of the resamples, shape (resamples, rows), in which one of the rows is below the line."""
    return float((noise < -claim.margin - TIE).any(axis=1).mean()) if claim.ahead is None else np.nan


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
    """At which depths the other policy stands, and its values there."""
    if claim.depth == "spent":
        yield spent, _between(study, collection, other, spent)
    elif claim.depth == "fewer":  # each of them: the best one was picked by the queries that it would be tested on
        yield from ((smaller, _values(collection, other, smaller)) for smaller in claim.budgets if smaller < budget)
    else:
        depth = budget if isinstance(claim.depth, str) else claim.depth
        yield depth, _values(collection, other, depth)


def _values(collection: Collection, policy: str, budget: float) -> FloatArray:
    values: FloatArray = collection.cells[policy, column_of(budget)].values[:, 0]
    return values


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
