"""The study as a page of Markdown tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from experiments.evaluate.significance import SIGNIFICANT
from experiments.report.recommendation import recommendation
from experiments.report.study import Collection, Study
from experiments.report.tables import p_text, verdict
from ragtune.core.units import DOCS, UNITS, Unit


def markdown(study: Study, cells: Any, policies: Any) -> str:
    """The tables of every collection, under a head that says how to make and how to read them.

    Args:
        study: what was measured.
        cells, policies: tables of the study, see ``tables.py``.
    """
    parts = [_advice(study, cells), _head(study)]
    for collection in study.collections:
        mine = cells[cells["collection"] == collection.name].set_index(["policy", "budget"])
        parts.append(_collection(study, collection, mine, policies[policies["collection"] == collection.name]))
    return "\n".join(parts)


def _advice(study: Study, cells: Any) -> str:
    found = recommendation(cells, study.measures[0])
    evidence = "".join(f"- {sentence}\n" for sentence in found.evidence)
    return f"# {study.title}\n\n**{found.title}** {found.summary}\n\n{evidence}\n{found.rule}\n"


def _head(study: Study) -> str:
    reference = study.by_name[study.reference].label
    span = "its budgets" if study.is_grid else "the runs compared"
    place = " at the same budget" if study.is_grid else ""
    notes = "".join(f"- {note}\n" for note in [*_of_curves(study), *study.notes])
    return f"""- made by `{study.command}`
- code: `{study.git_sha}`
- intervals: {study.level:.0%}, {study.resamples} bootstrap resamples of the queries; seed {study.seed}
- ▲ / ▼: above / below *{reference}*{place}, p < {SIGNIFICANT:.2f} in both the paired t-test and the paired
  randomization test ({study.permutations} random sign vectors), Holm-corrected over {span}; △ / ▽: in one of the two
- bold: the best of a column, ceilings left aside; *italic*: a ceiling, which knows the scores or the judgments
- full quality: {study.target_label}
{notes}"""


def _of_curves(study: Study) -> list[str]:
    """What areas and costs to a quality are read from; older tables of a grid knew the budgets only."""
    curves = [curve for collection in study.collections for curve in collection.whole_curves.values()]
    if not curves:
        return []
    fixed = "fixed depth at every depth, other policies" if any(curve.steps for curve in curves) else "all policies"
    measured = f"curves: measured are {fixed} at 0 {study.noun} and at each budget"
    return [f"{measured}; areas go from 0 to the largest number of {study.noun} that a query was charged"]


def _collection(study: Study, collection: Collection, cells: Any, policies: Any) -> str:
    headline = study.measures[0]
    shown = [headline, *(m for m in study.measures[1:] if m.startswith("R@"))]
    parts = [
        f"## {collection.name}\n",
        f"{len(collection.queries)} queries. Full quality: {headline} {collection.target[0]:.3f} at "
        f"{study.unit.number.format(collection.target_spent)} {study.noun} a query.{_start(study, collection)}\n",
    ]
    if study.is_grid:
        for measure in shown:
            parts += [f"### {measure}, by {study.noun} a query (hard limit)\n", _measure(study, cells, measure)]
    else:
        parts += ["### Means with intervals\n", _means(study, cells)]
        parts += [f"### Differences to {study.by_name[study.reference].label}\n", _differences(study, cells)]
    parts += [f"### Areas and {study.noun} to quality ({headline})\n", _areas(study, policies)]
    parts += [f"### Queries won / lost / tied against {study.by_name[study.reference].label}\n", _wins(study, cells)]
    parts += ["### Documents charged a query, mean (10% - 90% of the queries)\n", _charged(study, cells)]
    if study.unit is not DOCS:
        parts += ["### Calls / 1000 tokens / dollars charged a query, mean\n", _calls(study, cells)]
    for unit in UNITS:
        if f"{unit.name}_mean" in cells and not unit.is_always_told and cells[f"{unit.name}_mean"].any():
            parts += [f"### {unit.label} charged a query, mean\n", _mean_charged(study, cells, unit)]
    if cells["ineligible_mean"].any():
        title = "### Neighbours found that the reranker cannot score, mean a query\n"
        parts += [title, _grid(study, study.columns, lambda *key: f"{cells.loc[key, 'ineligible_mean']:.1f}")]
    return "\n".join(parts)


def _start(study: Study, collection: Collection) -> str:
    if collection.start is None:
        return ""
    label, quality = study.by_name[study.reference].label, f"{collection.start[0]:.3f}"
    real = [policy.name for policy in study.policies if policy.kind != "ceiling"]
    lines = [collection.lines[name] for name in real if name in collection.lines]
    own = sorted({f"{line.mean[0, 0]:.3f}" for line in lines if line.spent[0] == 0} - {quality})
    others = f"the estimators' own orders have {' to '.join(dict.fromkeys((own[0], own[-1])))}, and " if own else ""
    return f" At 0 {study.noun}, before anything is reranked, {others}the order of {label} has {quality}."


def _measure(study: Study, cells: Any, measure: str) -> str:
    real = [policy.name for policy in study.policies if policy.kind != "ceiling"]
    figures = {column: [round(cells.loc[(name, column), measure], 4) for name in real] for column in study.columns}
    best = {column: max(values) for column, values in figures.items() if max(values) > min(values)}

    def cell(name: str, column: str) -> str:
        row = cells.loc[(name, column)]
        text = f"{row[measure]:.3f}"
        if row["kind"] != "ceiling" and round(row[measure], 4) == best.get(column):
            text = f"**{text}**"
        return text + verdict(row, measure)

    return _grid(study, study.columns, cell)


def _means(study: Study, cells: Any) -> str:
    def cell(name: str, measure: str) -> str:
        row = cells.loc[(name, study.columns[0])]
        return f"{row[measure]:.3f}{verdict(row, measure)} [{row[f'{measure}_low']:.3f}, {row[f'{measure}_high']:.3f}]"

    return _grid(study, study.measures, cell)


def _differences(study: Study, cells: Any) -> str:
    """With their intervals and both corrected p-values, of the t-test and of the randomization test."""

    def cell(name: str, measure: str) -> str:
        if name == study.reference:
            return ""
        row = cells.loc[(name, study.columns[0])]
        p_t, p_randomization = (row[f"{measure}_{test}_holm"] for test in ("p_t", "p_randomization"))
        low, high = row[f"{measure}_diff_low"], row[f"{measure}_diff_high"]
        return f"{row[f'{measure}_diff']:+.3f} [{low:+.3f}, {high:+.3f}], p {p_text(p_t)} / {p_text(p_randomization)}"

    return _grid(study, study.measures, cell)


def _areas(study: Study, policies: Any) -> str:
    rows = policies.set_index("policy")
    to = [f"{study.noun} to 95%", f"{study.noun} to 99%"]
    names = ["area", "area, log axis", *to, "largest fall with more budget"]

    def cell(name: str, column: str) -> str:
        row = rows.loc[name]
        if column in to:
            return _reached(row, f"{study.unit.name}_to_{column[-3:-1]}", study.unit)
        key = {"area": "area", "area, log axis": "area_log"}.get(column, "largest_fall")
        return f"{row[key]:.4f}"

    return _grid(study, names, cell)


def _reached(row: Any, name: str, unit: Unit) -> str:
    spent = row[name]
    if spent != spent:
        return "-"
    return f"{'≤ ' if row[f'{name}_at_first'] else ''}{unit.number.format(spent)}"


def _wins(study: Study, cells: Any) -> str:
    def cell(name: str, column: str) -> str:
        row = cells.loc[(name, column)]
        return "" if name == study.reference else f"{row['wins']}/{row['losses']}/{row['ties']}"

    return _grid(study, study.columns, cell)


def _charged(study: Study, cells: Any) -> str:
    def cell(name: str, column: str) -> str:
        row = cells.loc[(name, column)]
        spread = "" if row["docs_p10"] == row["docs_p90"] else f" ({row['docs_p10']:.0f}-{row['docs_p90']:.0f})"
        return f"{row['docs_mean']:.1f}{spread}"

    return _grid(study, study.columns, cell)


def _calls(study: Study, cells: Any) -> str:
    def cell(name: str, column: str) -> str:
        row = cells.loc[(name, column)]
        return f"{row['calls_mean']:.1f} / {row['tokens_mean'] / 1000:.1f} / {row['usd_mean']:.4f}"

    return _grid(study, study.columns, cell)


def _mean_charged(study: Study, cells: Any, unit: Unit) -> str:
    charged = cells[f"{unit.name}_mean"].fillna(0.0)  # a cell in which nothing was spent does not tell the unit
    return _grid(study, study.columns, lambda *key: unit.number.format(charged.loc[key]))


def _grid(study: Study, columns: Sequence[str], cell: Callable[[str, str], str]) -> str:
    lines = [f"| policy | {' | '.join(columns)} |", f"|---|{'---:|' * len(columns)}"]
    for policy in study.policies:
        label = f"*{policy.label}*" if policy.kind == "ceiling" else policy.label
        lines.append(f"| {label} | {' | '.join(cell(policy.name, column) for column in columns)} |")
    return "\n".join([*lines, ""])
