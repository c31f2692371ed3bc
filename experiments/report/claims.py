"""Holds a study to its claims: on each collection, one holds, fails, or so few queries cannot tell. And the page."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from experiments.evaluate.curves import FloatArray
from experiments.evaluate.significance import SIGNIFICANT, TIE, holm, paired_tests
from experiments.publish.described import markdown_table
from experiments.report.families import means_by_family
from experiments.report.study import Claim, Study, StudyCollection, column_of
from experiments.report.tables import ends, p_text, resampled_means
from ragtune.core.errors import ConfigError


class ClaimVerdict(StrEnum):
    """What is known of a claim on a collection."""

    HOLDS = "holds"
    FAILS = "fails"
    OPEN = "open"


@dataclass(frozen=True)
class Held:
    """A claim with its result."""

    claim: Claim
    rows: Any  # one for each comparison (collection, other policy, budget)
    short: Sequence[str]  # collections whose point estimates are below the claim
    order: Sequence[str]  # all collections, the worst first
    findings: Mapping[str, ClaimVerdict]
    queries: Mapping[str, int]
    mean: float  # over the rows of a pair, the pairs of a collection, the collections of a family, and the families
    low: float
    high: float


def held(study: Study, claim: Claim) -> Held | None:
    """Compare the study's figures with a claim; None if it is about none of the study's collections."""
    import pandas as pd

    tables: list[Any] = []
    means: dict[str, FloatArray] = {}
    resampled: dict[str, FloatArray] = {}
    for collection in (c for c in study.collections if claim.is_about(c.name, c.plain)):
        compared, differences = _compared(study, claim, collection)
        drawn = resampled_means(study, collection, differences)
        tests = paired_tests(differences, permutations=study.permutations, seed=study.seed)
        mean, (low, high) = differences.mean(axis=0), ends(study, drawn)
        named = {"collection": collection.name, "group": collection.group, "family": collection.family}
        tables.append(
            pd.DataFrame([named | row for row in compared]).assign(
                difference=mean,
                low=low,
                high=high,
                p_holm=np.max(list(map(holm, tests)), axis=0),
                holds=mean >= -claim.margin - TIE,
                **side_columns(differences, -claim.margin),
            )
        )
        means[collection.name] = np.asarray(differences.mean())
        resampled[collection.name] = drawn.mean(axis=1)
    if not tables:
        return None
    low, high = ends(study, np.mean([*means_by_family(study.collections, resampled).values()], axis=0))
    rows = pd.concat(tables, ignore_index=True)
    worst = rows.groupby("collection", sort=False)["difference"].min()
    order = sorted(worst.index, key=lambda name: worst[name])
    return Held(
        claim,
        rows,
        short=[name for name in order if worst[name] < -claim.margin - TIE],
        order=order,
        findings=findings(rows),
        queries={name: len(c.queries) for c in study.collections if (name := c.name) in order},
        mean=float(np.mean([*means_by_family(study.collections, means).values()])),
        low=float(low),
        high=float(high),
    )


def _compared(study: Study, claim: Claim, collection: StudyCollection) -> tuple[list[dict[str, Any]], FloatArray]:
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
    study: Study, claim: Claim, collection: StudyCollection, other: str, budget: float, spent: float
) -> Iterator[tuple[float, FloatArray]]:
    """The budgets of the other policy that a claim compares with, and its values there."""
    if claim.depth == "spent":
        yield spent, _between(study, collection, other, spent)
        return
    depths = [budget if isinstance(claim.depth, str) else claim.depth]
    if claim.depth == "fewer":  # each of them: the best one was picked by the queries that it would be tested on
        depths = [smaller for smaller in claim.budgets if smaller < budget]
    yield from ((depth, collection.cells[other, column_of(depth)].values[:, 0]) for depth in depths)


def _between(study: Study, collection: StudyCollection, policy: str, spent: float) -> FloatArray:
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
    statistic, freedom = distance / np.where(alike, 1.0, deviation) * math.sqrt(q), max(q - 1, 1)
    p_below = np.where(alike, np.where(distance < 0.0, 0.5**q, 1.0), student.cdf(statistic, freedom))
    p_above = np.where(alike, np.where(distance > 0.0, 0.5**q, 1.0), student.sf(statistic, freedom))
    return {"p_below": np.minimum(1.0, 2.0 * p_below), "p_above": np.minimum(1.0, 2.0 * p_above)}


def findings(rows: Any) -> Mapping[str, ClaimVerdict]:
    """What a claim's comparisons prove, by collection: that all lie above its line, or that one lies below it."""
    collections = {str(name): mine for name, mine in rows.groupby("collection", sort=False)}
    proven = holm([mine["p_above"].max() for mine in collections.values()])
    refuted = holm([min(1.0, len(mine) * mine["p_below"].min()) for mine in collections.values()])
    found = {}
    for i, name in enumerate(collections):
        verdict = ClaimVerdict.HOLDS if proven[i] < SIGNIFICANT else ClaimVerdict.OPEN
        found[name] = ClaimVerdict.FAILS if refuted[i] < SIGNIFICANT else verdict
    return found


def claims_page(study: Study, found: Sequence[Held]) -> str:
    """All claims in one table of Markdown, then each claim with its collections, the worst first."""
    heads = ["", "claim", *ClaimVerdict, "as measured, falls short", "mean difference", "worst collection"]
    rows = [[f"{i}", *_summary(held)] for i, held in enumerate(found, 1)]
    parts = [_head(study, found), markdown_table(heads, rows, "rlrrrrrl")]
    for i, held in enumerate(found, 1):
        parts.append(f"\n## {i}. {held.claim.name}\n\n{_said(study, held)}\n\n{_worst(study, held)}")
    return "\n".join([*parts, ""])


def _head(study: Study, found: Sequence[Held]) -> str:
    counts = Counter(verdict for held in found for verdict in held.findings.values())
    holding, failing, undecided = (counts[verdict] for verdict in ClaimVerdict)
    proven = sum(all(verdict is ClaimVerdict.HOLDS for verdict in held.findings.values()) for held in found)
    refuted = sum(any(verdict is ClaimVerdict.FAILS for verdict in held.findings.values()) for held in found)
    kept = sum(not held.short for held in found)
    return f"""# {study.name}: claims

**Of {len(found)} claims, {proven} proven on every collection that they are about, {refuted} refuted on some.**
Of {counts.total()} findings, one for each claim and collection, {holding} hold,
{failing} fail, and {undecided} are open: so many queries cannot tell. Taken as measured,
without a test, {kept} of {len(found)} hold everywhere.

- made by `{study.command}`
- code: `{study.git_sha}`
- {study.measures[0]}; intervals: {study.level:.0%}, {study.resamples} bootstrap resamples; seed {study.seed}
- holds: all differences that the claim is about are proven to lie above its line, by paired t-tests; fails: one is
  proven to lie below it; two-sided at {SIGNIFICANT:.2f}, both Holm-corrected over the collections, a failure also over
  the comparisons of a collection. A line of .000 can be proven by being ahead only, never by being equal
- p: the larger of paired t-test and paired randomization test ({study.permutations} random sign vectors) against no
  difference, each Holm-corrected over all comparisons of the claim on that collection
- a collection is shown with its worst comparison, and the interval of one comparison. ▼: it falls short as measured
"""


def _summary(held: Held) -> list[str]:
    first = held.order[0]
    worst = held.rows[held.rows["collection"] == first]["difference"].min()
    counts = Counter(held.findings.values())
    short, mean = f"{len(held.short)} of {len(held.order)}", _interval(held.mean, held.low, held.high)
    return [held.claim.name, *(f"{counts[one]}" for one in ClaimVerdict), short, mean, f"{first} ({worst:+.3f})"]


def _said(study: Study, held: Held) -> str:
    claim = held.claim
    others = ", ".join(study.by_name[name].label for name in claim.against)
    depth = {
        "same": "at the same budget",
        "spent": f"at as many {study.noun} as it is charged on average, on the line between two budgets",
        "fewer": "at each smaller budget",
    }.get(str(claim.depth), f"at {claim.depth} {study.noun}")
    without = ", which do without the signals" if claim.plain else ""
    budgets = ", ".join(map(column_of, claim.budgets))
    above = int((held.rows.groupby("collection")["difference"].min() > 0).sum())
    return (
        f"*{study.by_name[claim.policy].label}* at {budgets} {study.noun} against {others}{without}, {depth}: at most "
        f"{claim.margin:.3f} below. "
        f"As measured, it falls short on {len(held.short)} of {len(held.order)} collections, and is above in every "
        f"comparison on {above}."
    )


def _worst(study: Study, held: Held) -> str:
    rows = []
    for name in held.order:
        mine, verdict = held.rows[held.rows["collection"] == name], held.findings[name]
        row = mine.loc[mine["difference"].idxmin()]
        spent, theirs = (study.unit.number.format(row[name]) for name in (study.unit.name, "depth"))
        found = [name, "▼" if name in held.short else "", verdict if verdict is ClaimVerdict.OPEN else f"**{verdict}**"]
        compared = [spent, study.by_name[row["against"]].label, theirs]
        difference = _interval(row["difference"], row["low"], row["high"])
        rows.append([*found, f"{held.queries[name]}", *compared, difference, p_text(row["p_holm"])])
    heads = ["collection", "", "finding", "queries", study.noun, "against", "theirs", "difference", "p"]
    return markdown_table(heads, rows, "lllrrlrrr")


def _interval(mean: float, low: float, high: float) -> str:
    return f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]"
