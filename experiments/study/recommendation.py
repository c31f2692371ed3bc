"""What a study recommends, in words, by one rule. Tables, report and the overview of results all quote it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from experiments.evaluate.significance import SIGNIFICANT
from experiments.study.study import FINAL, unit_of
from experiments.study.tables import p_text, verdict

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
        cells: the table of cells, as :func:`experiments.study.tables.cells_table` makes it or its CSV file holds it.
        measure: the headline measure.
    """
    rows = cells.assign(budget=cells["budget"].astype(str))
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
