"""Claims as a page of Markdown tables, the worst collection first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from experiments.evaluate.significance import SIGNIFICANT
from experiments.report.claims import POWER, Held, Verdict
from experiments.report.study import Study, column_of
from experiments.report.tables import p_text

_MANY = 100_000
"""Numbers of queries beyond this are not told apart."""


def claims_page(study: Study, found: Sequence[Held]) -> str:
    """All claims in one table, then each claim with its collections."""
    lines = [
        "| | claim | holds | fails | open | as measured, falls short | queries to tell | mean difference "
        "| worst collection |",
        "|---:|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    lines += [f"| {i} | {_summary(held)} |" for i, held in enumerate(found, 1)]
    parts = [_head(study, found), "\n".join([*lines, ""])]
    for i, held in enumerate(found, 1):
        parts.append(f"## {i}. {held.claim.name}\n\n{_said(study, held)}\n\n{_worst(study, held)}")
    return "\n".join(parts)


def _head(study: Study, found: Sequence[Held]) -> str:
    counts = Counter(finding.verdict for held in found for finding in held.findings.values())
    proven = sum(all(finding.verdict is Verdict.HOLDS for finding in held.findings.values()) for held in found)
    refuted = sum(any(finding.verdict is Verdict.FAILS for finding in held.findings.values()) for held in found)
    kept = sum(not held.short for held in found)
    return f"""# {study.name}: claims

**Of {len(found)} claims, {proven} proven on every collection that they are about, {refuted} refuted on some.**
Of {counts.total()} findings, one for each claim and collection, {counts[Verdict.HOLDS]} hold,
{counts[Verdict.FAILS]} fail, and {counts[Verdict.OPEN]} are open: so many queries cannot tell. Taken as measured,
without a test, {kept} of {len(found)} hold everywhere.

- made by `{study.command}`
- code: `{study.git_sha}`
- {study.measures[0]}; intervals: {study.level:.0%}, {study.resamples} bootstrap resamples; seed {study.seed}
- mean difference: over the rows of a pair, the pairs of a collection, the collections of a family, and the families
- holds: all differences that the claim is about are proven to lie above its line, by paired t-tests; fails: one is
  proven to lie below it; two-sided at {SIGNIFICANT:.2f}, both Holm-corrected over the collections, a failure also over
  the comparisons of a collection. A line of .000 can be proven by being ahead only, never by being equal
- queries to tell: as many would prove or refute the claim with probability {POWER:.0%}, if the differences and
  deviations measured here were the true ones; of a claim the median over its open collections
- p: the larger of paired t-test and paired randomization test ({study.permutations} random sign vectors) against no
  difference, each Holm-corrected over all comparisons of the claim on that collection
- a collection is shown with its worst comparison, which was picked for being the worst: its interval is that of one
  comparison, not of the worst of many. ▼: it falls short as measured
"""


def _summary(held: Held) -> str:
    first = held.order[0]
    worst = held.rows[held.rows["collection"] == first]["difference"].min()
    counts = Counter(finding.verdict for finding in held.findings.values())
    needed = [finding.needed for finding in held.findings.values() if finding.verdict is Verdict.OPEN]
    cells = [
        held.claim.name,
        *(f"{counts[verdict]}" for verdict in Verdict),
        f"{len(held.short)} of {len(held.order)}",
        _queries(float(np.median(needed))) if needed else "",
        _interval(held.mean, held.low, held.high),
    ]
    return f"{' | '.join(cells)} | {first} ({worst:+.3f})"


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
    compared = f"{study.noun} | against | theirs | difference | p"
    lines = [
        f"| collection | | finding | queries | to tell | {compared} |",
        "|---|---|---|---:|---:|---:|---|---:|---:|---:|",
    ]
    for name in held.order:
        mine = held.rows[held.rows["collection"] == name]
        row = mine.loc[mine["difference"].idxmin()]
        difference = _interval(row["difference"], row["low"], row["high"])
        spent, theirs = (study.unit.number.format(row[name]) for name in (study.unit.name, "depth"))
        compared = f"{spent} | {study.by_name[row['against']].label} | {theirs} | {difference}"
        lines.append(f"| {_finding(held, name)} | {compared} | {p_text(row['p_holm'])} |")
    return "\n".join([*lines, ""])


def _finding(held: Held, name: str) -> str:
    finding, sign = held.findings[name], "▼" if name in held.short else ""
    verdict = finding.verdict if finding.verdict is Verdict.OPEN else f"**{finding.verdict}**"
    needed = _queries(finding.needed) if finding.verdict is Verdict.OPEN else ""
    return f"{name} | {sign} | {verdict} | {held.queries[name]} | {needed}"


def _queries(needed: float) -> str:
    """A number of queries to two digits, as it is an estimate."""
    return f"> {_MANY:,}" if needed >= _MANY else f"{float(f'{needed:.2g}'):,.0f}"


def _interval(mean: float, low: float, high: float) -> str:
    return f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]"
