"""What a study recommends, in words, by one rule. Tables, report and the overview of results all quote it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.evaluate.significance import SIGNIFICANT
from experiments.report.study import FINAL, unit_of
from experiments.report.tables import p_text

AS_GOOD = 0.95
"""Share of the baseline's quality at its largest cost that is as good: the share that ``ragtune advise`` keeps too."""

RULE_FOR_LESS = (
    "Every cell is compared with the baseline at its largest cost. A cell is better where both tests place it above "
    f"that (p < {SIGNIFICANT:.2f}, Holm-corrected over all cells) on at least half of the collections, and on none "
    "below. It is as good for less where it costs less on every collection and the lower end of its interval keeps "
    f"{AS_GOOD:.0%} of the baseline's mean. The cheapest better cell is recommended, else the cheapest one that is as "
    "good; of equals the one with the best mean. "
)
CAVEAT = (
    "The choice is made and tested on the same queries: confirm it on others before you rely on the size of the gain."
)


@dataclass(frozen=True)
class Recommendation:
    """What to do, and why.

    Attributes:
        title: one sentence, plain text.
        summary: one sentence that holds over all collections.
        evidence: a sentence a collection.
        rule: how the recommendation is found, and what it is not.
        policy, column: names of the recommended cell; the baseline's where nothing is better.
    """

    title: str
    summary: str
    evidence: tuple[str, ...]
    rule: str
    policy: str
    column: str


def recommendation(cells: Any, measure: str) -> Recommendation:
    """Find what is better than the baseline at its largest cost, else what is as good for less, else that baseline.

    Args:
        cells: the table of cells, as :func:`experiments.report.tables.cells_table` makes it or its CSV file holds it.
        measure: the headline measure.
    """
    rows, full = _beside(cells.assign(budget=cells["budget"].astype(str)), measure)
    cells = rows[rows["kind"] != "ceiling"].groupby(["policy", "budget"], sort=False)
    better = [key for key, held in cells if 2 * (held["side"] > 0).sum() >= len(held) and (held["side"] >= 0).all()]
    as_good = [key for key, held in cells if held["good"].all()]
    found = better or as_good
    if not found:
        return _keep_full(rows, full, measure)
    cost, mean = cells["share"].mean().round(9), cells[measure].mean().round(9)
    policy, column = min(found, key=lambda key: (cost[key], -mean[key]))
    chosen = rows[(rows["policy"] == policy) & (rows["budget"] == column)]
    what = "better than" if better else "as good as"
    named = f"Use {_named(rows, chosen)}: {what} {_named(rows, full)}, for {_of(chosen, full, rows)}."
    span = f"{chosen['full_diff'].min():+.3f}"
    span += f" to {chosen['full_diff'].max():+.3f}" if len(chosen) > 1 else ""
    held = f"significantly better on {(chosen['side'] > 0).sum()} of {len(chosen)} collections"
    kept = f"the lower end of its interval keeps {AS_GOOD:.0%} of it on every collection"
    summary = f"Against that, {measure} changes by {span}: {held if better else kept}."
    evidence = [_beside_full(row, full, measure) for _, row in chosen.iterrows()]
    return Recommendation(named, summary, tuple(evidence), RULE_FOR_LESS + CAVEAT, str(policy), str(column))


def recommended_in(text: str) -> Recommendation | None:
    """The recommendation that the tables of a study (``frontier.md``, ``compare.md``) begin with; None without any."""
    found = re.match(r"# .*\n\n\*\*(.*?)\*\* (.*)\n\n((?:- .*\n)*)\n(.*)\n", text)
    if found is None:
        return None
    title, summary, evidence, rule = found.groups()
    return Recommendation(title, summary, tuple(re.findall("^- (.*)", evidence, re.MULTILINE)), rule, "", "")


def nearest_for_less(cells: Any, measure: str) -> str:
    """The cheaper cell that is as good as the baseline on most collections, in a sentence; empty without any.

    Args:
        cells: see :func:`recommendation`; of a table without the comparison, as of version 0.55, nothing can be said.
        measure: the headline measure.
    """
    if "full_diff" not in cells:
        return ""
    rows, _ = _beside(cells.assign(budget=cells["budget"].astype(str)), measure)
    by_cell = rows[rows["kind"] != "ceiling"].groupby(["policy", "budget"], sort=False)
    held, share = by_cell["good"].sum(), by_cell["share"].mean().round(9)
    policy, column = min(held.index, key=lambda key: (-held[key], share[key]))
    chosen = rows[(rows["policy"] == policy) & (rows["budget"] == column)]
    if not held[policy, column]:
        return ""
    return (
        f"{_named(rows, chosen)} comes nearest: it is shown to keep {AS_GOOD:.0%} on {held[policy, column]} of "
        f"{len(chosen)}."
    )


def _is_grid(rows: Any) -> bool:
    return bool((rows["budget"] != FINAL).all())


def _spent(row: Any) -> str:
    calls = f"{row['calls_mean']:.1f}"
    return f"{row['docs_mean']:.1f} documents in {calls} call{'' if calls == '1.0' else 's'}"


def _beside(rows: Any, measure: str) -> tuple[Any, Any]:
    """The cells with what each is beside the baseline at its largest cost, and the cells of that baseline."""
    spent = f"{unit_of(rows).name}_mean"
    full = _at_full(rows, spent)
    theirs = rows["collection"].map(full.set_index("collection")[measure])
    costs = rows["collection"].map(full.set_index("collection")[spent])
    p = rows[["full_p_t_holm", "full_p_randomization_holm"]].max(axis=1)
    side = np.sign(rows["full_diff"]).where(p < SIGNIFICANT, 0).astype(int)
    good = (rows["full_diff_low"] >= -(1.0 - AS_GOOD) * theirs) & (rows[spent] < costs - 0.005 * costs)
    return rows.assign(side=side, good=good, share=rows[spent] / costs.where(costs > 0)), full


def _keep_full(rows: Any, full: Any, measure: str) -> Recommendation:
    title = f"Keep {_named(rows, full)}: nothing here is shown to be better, or as good for less."
    summary = f"In {measure}, no cheaper cell is shown to keep {AS_GOOD:.0%} of it on every collection."
    others = rows[(rows["kind"] != "ceiling") & (rows["full_diff"] != 0.0)]
    best = others.loc[others.groupby("collection", sort=False)["full_diff_low"].idxmax()]
    evidence = [_beside_full(row, full, measure) for _, row in best.iterrows()]
    first = full.iloc[0]
    return Recommendation(
        title, summary, tuple(evidence), RULE_FOR_LESS + CAVEAT, str(first["policy"]), str(first["budget"])
    )


def _at_full(rows: Any, spent: str) -> Any:
    """The baseline's dearest cell of each collection."""
    baseline = rows[rows["kind"] == "incumbent"]
    return baseline.loc[baseline.groupby("collection", sort=False)[spent].idxmax()]


def _named(rows: Any, cell: Any) -> str:
    limit = f" with at most {cell['budget'].iloc[0]} {unit_of(rows).noun} a query" if _is_grid(rows) else ""
    return f"{cell['label'].iloc[0]}{limit}"


def _of(chosen: Any, full: Any, rows: Any) -> str:
    """The mean cost of a query, of the baseline's."""
    unit = unit_of(rows)
    mine, theirs = (unit.number.format(cell[f"{unit.name}_mean"].mean()) for cell in (chosen, full))
    if mine == theirs:
        return f"the same {mine} {unit.noun} a query"
    return f"{mine} instead of {theirs} {unit.noun} a query"


def _beside_full(row: Any, full: Any, measure: str) -> str:
    theirs = full[full["collection"] == row["collection"]].iloc[0]
    p_t, p_randomization = (p_text(row[f"full_{test}_holm"]) for test in ("p_t", "p_randomization"))
    ends = f"[{row['full_diff_low']:+.3f}, {row['full_diff_high']:+.3f}]"
    return (
        f"{row['collection']}: {row['label']} has {measure} {row[measure]:.3f} with {_spent(row)}, {theirs['label']} "
        f"{theirs[measure]:.3f} with {_spent(theirs)}: {row['full_diff']:+.3f} {ends}, p {p_t} (t-test) and "
        f"{p_randomization} (randomization)."
    )
