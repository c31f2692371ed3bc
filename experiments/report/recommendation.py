"""What a study recommends, in words, by one rule. The tables and the report quote it."""

from __future__ import annotations

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
    """What to do, and why, in plain sentences; policy and column name the recommended cell."""

    title: str
    summary: str
    evidence: tuple[str, ...]
    rule: str
    policy: str
    column: str


def recommendation(cells: Any, measure: str) -> Recommendation:
    """Find what is better than the baseline at its largest cost, else what is as good for less, else that baseline."""
    rows, full, by_cell = _beside(cells, measure)
    better = [key for key, cell in by_cell if 2 * (cell["side"] > 0).sum() >= len(cell) and (cell["side"] >= 0).all()]
    as_good = [key for key, cell in by_cell if cell["good"].all()]
    found = better or as_good
    if not found:
        return _keep_full(rows, full, measure)
    cost, mean = by_cell["share"].mean().round(9), by_cell[measure].mean().round(9)
    key = min(found, key=lambda key: (cost[key], -mean[key]))
    chosen = by_cell.get_group(key)
    what = "better than" if better else "as good as"
    title = f"Use {_named(chosen)}: {what} {_named(full)}, for {_of(chosen, full)}."
    span = f"{chosen['full_diff'].min():+.3f}"
    span += f" to {chosen['full_diff'].max():+.3f}" if len(chosen) > 1 else ""
    held = f"significantly better on {(chosen['side'] > 0).sum()} of {len(chosen)} collections"
    kept = f"the lower end of its interval keeps {AS_GOOD:.0%} of it on every collection"
    summary = f"Against that, {measure} changes by {span}: {held if better else kept}."
    evidence = [_beside_full(row, full, measure) for _, row in chosen.iterrows()]
    return Recommendation(title, summary, tuple(evidence), RULE_FOR_LESS + CAVEAT, *map(str, key))


def _beside(cells: Any, measure: str) -> tuple[Any, Any, Any]:
    """The cells beside the baseline at its largest cost, that baseline, and the cells by policy and budget."""
    spent = f"{unit_of(cells).name}_mean"
    rows = cells.assign(budget=cells["budget"].astype(str))
    baseline = rows[rows["kind"] == "baseline"]
    full = baseline.loc[baseline.groupby("collection", sort=False)[spent].idxmax()]
    theirs = rows["collection"].map(full.set_index("collection")[measure])
    costs = rows["collection"].map(full.set_index("collection")[spent])
    p = rows[["full_p_t_holm", "full_p_randomization_holm"]].max(axis=1)
    side = np.sign(rows["full_diff"]).where(p < SIGNIFICANT, 0).astype(int)
    good = (rows["full_diff_low"] >= -(1.0 - AS_GOOD) * theirs) & (rows[spent] < costs - 0.005 * costs)
    rows = rows.assign(side=side, good=good, share=rows[spent] / costs.where(costs > 0))
    return rows, full, rows[rows["kind"] != "ceiling"].groupby(["policy", "budget"], sort=False)


def _keep_full(rows: Any, full: Any, measure: str) -> Recommendation:
    title = f"Keep {_named(full)}: nothing here is shown to be better, or as good for less."
    summary = f"In {measure}, no cheaper cell is shown to keep {AS_GOOD:.0%} of it on every collection."
    others = rows[(rows["kind"] != "ceiling") & (rows["full_diff"] != 0.0)]
    best = others.loc[others.groupby("collection", sort=False)["full_diff_low"].idxmax()]
    evidence = tuple(_beside_full(row, full, measure) for _, row in best.iterrows())
    first = full.iloc[0]
    return Recommendation(title, summary, evidence, RULE_FOR_LESS + CAVEAT, str(first["policy"]), first["budget"])


def _named(rows: Any) -> str:
    first = rows.iloc[0]
    limit = f" with at most {first['budget']} {unit_of(rows).noun} a query" if first["budget"] != FINAL else ""
    return f"{first['label']}{limit}"


def _of(chosen: Any, full: Any) -> str:
    unit = unit_of(full)
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


def _spent(row: Any) -> str:
    calls = f"{row['calls_mean']:.1f}"
    return f"{row['docs_mean']:.1f} documents in {calls} call{'' if calls == '1.0' else 's'}"
