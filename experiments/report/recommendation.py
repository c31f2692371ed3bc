"""What a study recommends, in words, by one rule. Tables, report and the overview of results all quote it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from experiments.evaluate.significance import SIGNIFICANT
from experiments.report.study import FINAL, unit_of
from experiments.report.tables import p_text, verdict

KEPT = 0.99
"""Share of a policy's best mean quality that its recommended budget has to keep."""

RULE_OF_POLICY = (
    f"A policy can be recommended where it is significantly above the incumbent (p < {SIGNIFICANT:.2f} in the t-test "
    "and in the randomization test, Holm-corrected) on at least half of the collections and significantly below on "
    "none; ceilings cannot. Of several, it is the one with the most significant gains in all cells, less the losses; "
    "of equals, the one with the highest mean. "
)
RULE_OF_BUDGET = (
    "The budget is the smallest for which that holds and which keeps "
    f"{KEPT:.0%} of the policy's best mean over the collections. "
)
AS_GOOD = 0.95
"""Share of the baseline's quality at its largest cost that is as good: the share that ``ragtune advise`` keeps too."""

RULE_FOR_LESS = (
    "Every cell is compared with the baseline at its largest cost. A cell is better where both tests place it above "
    f"that (p < {SIGNIFICANT:.2f}, Holm-corrected over all cells) on at least half of the collections, and on none "
    "below. It is as good for less where it costs less on every collection and the lower end of its interval keeps "
    f"{AS_GOOD:.0%} of the baseline's mean. The cheapest better cell is recommended, else the cheapest one that is as "
    "good; of equals the one with the best mean. "
)
SAME_BUDGET_ONLY = (
    " An earlier version made this table: it compares policies at the same budget only, and does not ask which cell is "
    "as good as the baseline for less."
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
        policy, column: names of the recommended cell; the incumbent's where nothing is better.
    """

    title: str
    summary: str
    evidence: tuple[str, ...]
    rule: str
    policy: str
    column: str


def recommendation(cells: Any, measure: str) -> Recommendation:
    """Find what a study recommends.

    Args:
        cells: the table of cells, as :func:`experiments.report.tables.cells_table` makes it or its CSV file holds it.
        measure: the headline measure.
    """
    rows = cells.assign(budget=cells["budget"].astype(str))
    if "full_diff" in rows:
        return _better_or_as_good(rows, measure)
    found = _at_the_same_budget(rows, measure)
    return replace(found, summary=found.summary + SAME_BUDGET_ONLY) if _is_grid(rows) else found


def _at_the_same_budget(rows: Any, measure: str) -> Recommendation:
    """What tables of earlier versions can tell."""
    rows = rows.assign(standing=[_standing(row, measure) for _, row in rows.iterrows()])
    usable = rows[rows["kind"].isin(("ours", "peer"))]
    rule = RULE_OF_POLICY + (RULE_OF_BUDGET if _is_grid(rows) else "") + CAVEAT
    proven = {str(name): columns for name, mine in usable.groupby("policy", sort=False) if (columns := _proven(mine))}
    if not proven:
        return _nothing_better(rows, measure, rule)
    by_policy = usable.groupby("policy", sort=False)
    net, means = by_policy["standing"].sum(), by_policy[measure].mean()
    policy = max(proven, key=lambda name: (net[name], round(means[name], 9)))
    column = _column(usable[usable["policy"] == policy], proven[policy], measure)
    return _in_words(rows, measure, rule, policy, column)


def _proven(mine: Any) -> list[str]:
    """Columns in which a policy is above on at least half of the collections, and below on none."""
    by_column = mine.groupby("budget", sort=False)["standing"]
    return [str(column) for column, held in by_column if 2 * (held > 0).sum() >= len(held) and (held >= 0).all()]


def _standing(row: Any, measure: str) -> int:
    return {"▲": 1, "▼": -1}.get(verdict(row, measure), 0)


def _is_grid(rows: Any) -> bool:
    return bool((rows["budget"] != FINAL).all())


def _noun(rows: Any) -> str:
    return unit_of(rows).noun


def _column(mine: Any, proven: list[str], measure: str) -> str:
    means = mine.groupby("budget", sort=False)[measure].mean()
    kept = [column for column in proven if means[column] >= KEPT * means.max()]
    return kept[0] if kept else max(proven, key=lambda column: float(means[column]))


def _in_words(rows: Any, measure: str, rule: str, policy: str, column: str) -> Recommendation:
    chosen = rows[(rows["policy"] == policy) & (rows["budget"] == column)]
    label, incumbent = chosen["label"].iloc[0], _incumbent(rows)["label"].iloc[0]
    limit = f" with at most {column} {_noun(rows)} a query" if _is_grid(rows) else ""
    better, worse = (chosen["standing"] > 0).sum(), (chosen["standing"] < 0).sum()
    gains = chosen[f"{measure}_diff"]
    span = f"{gains.min():+.3f}" if len(chosen) == 1 else f"{gains.min():+.3f} to {gains.max():+.3f}"
    place = " at the same budget" if limit else ", each as it ended"
    held = f"significantly better on {better} of {len(chosen)} collections, significantly worse on {worse or 'none'}"
    held = held if len(chosen) > 1 else "significantly better"
    summary = f"Against {incumbent}{place}, {measure} changes by {span}: {held}."
    evidence = tuple(_evidence(rows, row, measure) for _, row in chosen.iterrows())
    return Recommendation(f"Use {label}{limit}.", summary, evidence, rule, policy, column)


def _incumbent(rows: Any) -> Any:
    return rows[rows["kind"] == "incumbent"]


def _evidence(rows: Any, row: Any, measure: str) -> str:
    theirs = _incumbent(rows)
    theirs = theirs[theirs["collection"] == row["collection"]]
    same = theirs[theirs["budget"] == row["budget"]].iloc[0]
    said = {1: "significantly better", 0: "not significant", -1: "significantly worse"}[row["standing"]]
    sentence = (
        f"{row['collection']}: {measure} {row[measure]:.3f} with {_spent(row)}, against {same[measure]:.3f} of "
        f"{same['label']} with {_spent(same)}: {_difference(row, measure)}; {said}."
    )
    if not _is_grid(rows) or row["standing"] <= 0:
        return sentence
    reached = theirs[theirs[measure] >= row[measure]]
    if not len(reached):
        return f"{sentence} No budget here takes {same['label']} to {row[measure]:.3f}."
    unit = unit_of(rows)
    needed = f"{unit.number.format(reached[f'{unit.name}_mean'].iloc[0])} {unit.noun}"
    return f"{sentence} It takes {same['label']} {needed} to reach {row[measure]:.3f}."


def _spent(row: Any) -> str:
    calls = f"{row['calls_mean']:.1f}"
    return f"{row['docs_mean']:.1f} documents in {calls} call{'' if calls == '1.0' else 's'}"


def _difference(row: Any, measure: str) -> str:
    """The difference from the incumbent with its interval and both corrected p-values."""
    mean, low, high = (row[f"{measure}_diff{part}"] for part in ("", "_low", "_high"))
    p_t, p_randomization = (p_text(row[f"{measure}_{test}_holm"]) for test in ("p_t", "p_randomization"))
    return f"{mean:+.3f} [{low:+.3f}, {high:+.3f}], p {p_t} (t-test) and {p_randomization} (randomization)"


def _nothing_better(rows: Any, measure: str, rule: str) -> Recommendation:
    incumbent = _incumbent(rows)
    label = incumbent["label"].iloc[0]
    means = incumbent.groupby("budget", sort=False)[measure].mean()
    column = str(next(name for name in means.index if means[name] >= KEPT * means.max()))
    limit = f" with at most {column} {_noun(rows)} a query" if _is_grid(rows) else ""
    others = rows[rows["kind"].isin(("ours", "peer"))]
    evidence = []
    for _, mine in others.groupby("collection", sort=False):
        row = mine.loc[mine[f"{measure}_diff"].idxmax()]
        where = f" at {row['budget']} {_noun(rows)}" if limit else ""
        evidence.append(f"{row['collection']}: the largest gain is {row['label']}{where}: {_difference(row, measure)}.")
    title = f"Keep {label}{limit}: nothing here is significantly better."
    place = " at the same budget" if limit else ""
    summary = f"In {measure}, no policy is significantly above it{place} on half of the collections and below on none."
    return Recommendation(title, summary, tuple(evidence), rule, str(incumbent["policy"].iloc[0]), column)


def nearest_for_less(cells: Any, measure: str) -> str:
    """The cheaper cell that is as good as the baseline on most collections, in a sentence; empty without any.

    Args:
        cells: see :func:`recommendation`; of an earlier version's table, nothing can be said.
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


def _beside(rows: Any, measure: str) -> tuple[Any, Any]:
    """The cells with what each is beside the incumbent at its largest cost, and the cells of that incumbent."""
    spent = f"{unit_of(rows).name}_mean"
    full = _at_full(rows, spent)
    theirs = rows["collection"].map(full.set_index("collection")[measure])
    costs = rows["collection"].map(full.set_index("collection")[spent])
    p = rows[["full_p_t_holm", "full_p_randomization_holm"]].max(axis=1)
    side = np.sign(rows["full_diff"]).where(p < SIGNIFICANT, 0).astype(int)
    good = (rows["full_diff_low"] >= -(1.0 - AS_GOOD) * theirs) & (rows[spent] < costs - 0.005 * costs)
    return rows.assign(side=side, good=good, share=rows[spent] / costs.where(costs > 0)), full


def _better_or_as_good(rows: Any, measure: str) -> Recommendation:
    """What is better than the incumbent at its largest cost, else what is as good for less, else that incumbent."""
    rows, full = _beside(rows, measure)
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
    """The incumbent's dearest cell of each collection."""
    incumbent = _incumbent(rows)
    return incumbent.loc[incumbent.groupby("collection", sort=False)[spent].idxmax()]


def _named(rows: Any, cell: Any) -> str:
    limit = f" with at most {cell['budget'].iloc[0]} {_noun(rows)} a query" if _is_grid(rows) else ""
    return f"{cell['label'].iloc[0]}{limit}"


def _of(chosen: Any, full: Any, rows: Any) -> str:
    """The mean cost of a query, of the incumbent's."""
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
