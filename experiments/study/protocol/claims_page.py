"""Claims as a page of Markdown tables, the worst collection first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from experiments.study.protocol.claims import Held
from experiments.study.study import Study
from experiments.study.tables import SIGNIFICANT, p_text


def claims_page(study: Study, found: Sequence[Held]) -> str:
    """What became of every claim: first on how many collections each fails, then each by itself.

    Args:
        study: what was measured.
        found: the claims.
    """
    lines = ["| | claim | fails on | mean difference | worst collection |", "|---:|---|---:|---:|---|"]
    lines += [f"| {i} | {_summary(held)} |" for i, held in enumerate(found, 1)]
    parts = [_head(study, found), "\n".join([*lines, ""])]
    for i, held in enumerate(found, 1):
        figure = f"![{held.claim.name}]({figure_name(i)})\n\n"
        table = _ahead(study, held) if held.claim.ahead is not None else figure + _worst(study, held)
        parts.append(f"## {i}. {held.claim.name}\n\n{_said(study, held)}\n\n{table}")
    return "\n".join(parts)


def figure_name(number: int) -> str:
    """The file of the figure of a claim, which are counted from 1."""
    return f"claim-{number}.png"


def claims_csv(found: Sequence[Held]) -> Any:
    """The rows of all claims in one table, with the name of the claim."""
    import pandas as pd

    return pd.concat([held.rows.assign(claim=held.claim.name) for held in found], ignore_index=True)


def _head(study: Study, found: Sequence[Held]) -> str:
    kept = sum(not held.fails for held in found)
    return f"""# {study.name}: claims

**{kept} of {len(found)} claims hold on every collection that they are about.**

- made by `{study.command}`
- code: `{study.git_sha}`
- {study.measures[0]}; intervals: {study.level:.0%}, {study.resamples} bootstrap resamples; seed {study.seed}
- mean difference: over the rows of a collection, the collections of a group, and the groups, each counting once
- p: the larger of paired t-test and paired randomization test ({study.permutations} random sign vectors), each
  Holm-corrected over all comparisons of the claim on that collection
- a collection is shown with its worst comparison, which was picked for being the worst: its interval is that of one
  comparison, not of the worst of many
"""


def _summary(held: Held) -> str:
    first = held.order[0]
    worst = held.rows[held.rows["collection"] == first]["difference"].min()
    count = f"**{len(held.fails)}** of {len(held.order)}" if held.fails else f"none of {len(held.order)}"
    return f"{held.claim.name} | {count} | {_interval(held.mean, held.low, held.high)} | {first} ({worst:+.3f})"


def _said(study: Study, held: Held) -> str:
    claim = held.claim
    others = ", ".join(study.by_name[name].label for name in claim.against)
    depth = {
        "same": "at the same budget",
        "spent": f"at as many {study.noun} as it is charged on average, on the line between two budgets",
        "fewer": "at its best smaller budget",
    }.get(str(claim.depth), f"at {claim.depth} {study.noun}")
    without = ", which do without the signals" if claim.plain else ""
    asked = f"at most {claim.margin:.3f} below"
    if claim.ahead is not None:
        asked = f"above, p < {SIGNIFICANT:.2f}, at {claim.ahead:.0%} of the budgets or more"
    budgets = ", ".join(map(str, claim.budgets))
    above = int((held.rows.groupby("collection")["difference"].min() > 0).sum())
    return (
        f"*{study.by_name[claim.policy].label}* at {budgets} {study.noun} against {others}{without}, {depth}: {asked}. "
        f"It fails on {len(held.fails)} of {len(held.order)} collections, and is above in every comparison on {above}."
    )


def _worst(study: Study, held: Held) -> str:
    lines = [
        f"| collection | | {study.noun} | against | theirs | difference | p |",
        "|---|---|---:|---|---:|---:|---:|",
    ]
    for name in held.order:
        mine = held.rows[held.rows["collection"] == name]
        row = mine.loc[mine["difference"].idxmin()]
        sign = "▼" if name in held.fails else ""
        difference = _interval(row["difference"], row["low"], row["high"])
        against = study.by_name[row["against"]].label
        lines.append(
            f"| {name} | {sign} | {row[study.unit]:.1f} | {against} | {row['depth']:.1f} | {difference} | "
            f"{p_text(row['p_holm'])} |"
        )
    return "\n".join([*lines, ""])


def _ahead(study: Study, held: Held) -> str:
    labels = [study.by_name[name].label for name in held.claim.against]
    lines = [f"| collection | | {' | '.join(labels)} |", f"|---|---|{'---:|' * len(labels)}"]
    counts = held.rows.groupby(["collection", "against"], sort=False)["ahead"].agg(["sum", "size"])
    for name in held.order:
        cells = [
            f"{counts.loc[name, other]['sum']} of {counts.loc[name, other]['size']}" for other in held.claim.against
        ]
        lines.append(f"| {name} | {'▼' if name in held.fails else ''} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _interval(mean: float, low: float, high: float) -> str:
    return f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]"
