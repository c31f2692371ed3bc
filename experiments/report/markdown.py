"""The study as a page of Markdown tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.evaluate.significance import SIGNIFICANT
from experiments.publish.described import markdown_table
from experiments.report.recommendation import Recommendation
from experiments.report.study import Study, StudyCollection
from experiments.report.tables import p_text, verdict
from ragtune.core.units import DOCS, UNITS, Unit


@dataclass(frozen=True)
class Table:
    """A table with a row for each policy; its cells are Markdown."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    @property
    def markdown(self) -> str:
        return f"### {self.title}\n\n{markdown_table(self.columns, self.rows)}\n"


def markdown(study: Study, cells: Any, policies: Any, advice: Recommendation, families: str = "") -> str:
    """The tables of the families and of every collection, under the recommendation and how the study was made."""
    evidence = "".join(f"- {sentence}\n" for sentence in advice.evidence)
    parts = [f"# {study.title}\n\n**{advice.title}** {advice.summary}\n\n{evidence}\n{advice.rule}\n", _head(study)]
    parts += [families] if families else []
    for collection in study.collections:
        parts += [f"## {collection.name}\n", f"{described(study, collection)}\n"]
        parts += [table.markdown for table in tables_of(study, collection, cells, policies)]
    return "\n".join(parts)


def _head(study: Study) -> str:
    reference = study.by_name[study.reference].label
    span = "its budgets" if study.is_grid else "the runs compared"
    place = " at the same budget" if study.is_grid else ""
    notes = "".join(f"- {note}\n" for note in study.notes)
    return f"""- made by `{study.command}`
- code: `{study.git_sha}`
- intervals: {study.level:.0%}, {study.resamples} bootstrap resamples of the queries; seed {study.seed}
- ▲ / ▼: above / below *{reference}*{place}, p < {SIGNIFICANT:.2f} in both the paired t-test and the paired
  randomization test ({study.permutations} random sign vectors), Holm-corrected over {span}; △ / ▽: in one of the two
- bold: the best of a column, ceilings left aside; *italic*: a ceiling, which knows the scores or the judgments
- full quality: {study.target_label}
{notes}"""


def described(study: Study, collection: StudyCollection) -> str:
    """How many queries a collection has, what full quality is there, and where the curves start."""
    full = f"{study.measures[0]} {collection.target[0]:.3f} at {study.unit.number.format(collection.target_spent)}"
    labels: dict[str, list[str]] = {}
    for policy in study.policies:
        line = collection.curves.get(policy.name)
        if line is not None and line.spent[0] == 0 and policy.kind != "ceiling":
            labels.setdefault(f"{line.mean[0, 0]:.3f}", []).append(policy.label)
    starts = ", ".join(f"{mean} ({_some(found)})" for mean, found in labels.items())
    start = f" At 0 {study.noun}, before anything is reranked: {starts}." if starts else ""
    return f"{len(collection.queries)} queries. Full quality: {full} {study.noun} a query.{start}"


def _some(labels: list[str]) -> str:
    return ", ".join(labels) if len(labels) <= 3 else f"{labels[0]} and {len(labels) - 1} others"


def tables_of(study: Study, collection: StudyCollection, cells: Any, policies: Any) -> list[Table]:
    """The tables of a collection, from its rows of the tables of cells and of policies."""
    cells = cells[cells["collection"] == collection.name].set_index(["policy", "budget"])
    rows = policies[policies["collection"] == collection.name].set_index("policy")
    headline, reference = study.measures[0], study.by_name[study.reference].label

    def table(title: str, columns: Sequence[str], cell: Callable[[str, str], str]) -> Table:
        labels = {p.name: f"*{p.label}*" if p.kind == "ceiling" else p.label for p in study.policies}
        body = [[label, *(cell(name, c) for c in columns)] for name, label in labels.items()]
        return Table(title, ["policy", *columns], body)

    def by_column(title: str, text: Callable[[Any], str]) -> Table:
        return table(title, study.columns, lambda name, column: text(cells.loc[(name, column)]))

    def by_measure(title: str, text: Callable[[Any, str], str]) -> Table:
        return table(title, study.measures, lambda name, measure: text(cells.loc[(name, study.columns[0])], measure))

    found = []
    if study.is_grid:
        for measure in [headline, *(m for m in study.measures[1:] if m.startswith("R@"))]:
            title = f"{measure}, by {study.noun} a query (hard limit)"
            found.append(table(title, study.columns, _measure(cells, measure)))
        for other in study.baselines[1:]:
            title = f"{headline} less that of {other.label} at the same budget"
            found.append(by_column(title, _beside(f"{headline}_vs_{other.name}", other.name)))
    else:
        found.append(by_measure("Means with intervals", _mean))
        found.append(by_measure(f"Differences to {reference}", _difference(study)))
    areas = ["area", f"{study.noun} to 95%", f"{study.noun} to 99%"]
    found.append(table(f"Areas and {study.noun} to quality ({headline})", areas, _area(study, rows)))
    found.append(
        by_column(
            f"Queries won / lost / tied against {reference}",
            lambda row: "" if row.name[0] == study.reference else f"{row['wins']}/{row['losses']}/{row['ties']}",
        )
    )
    return [*found, *_costs(study, cells, by_column)]


def _costs(study: Study, cells: Any, by_column: Callable[[str, Callable[[Any], str]], Table]) -> list[Table]:
    found = [by_column("Documents charged a query, mean (10% - 90% of the queries)", _charged)]
    if study.unit is not DOCS:
        found.append(by_column("Calls / 1000 tokens / dollars charged a query, mean", _calls))
    for unit in UNITS:
        column = f"{unit.name}_mean"
        if column in cells and not unit.is_always_told and cells[column].any():
            found.append(by_column(f"{unit.label} charged a query, mean", _amount(unit)))
    return found


def _measure(cells: Any, measure: str) -> Callable[[str, str], str]:
    real = cells[cells["kind"] != "ceiling"][measure].round(4).groupby("budget")
    lowest, best = real.min(), real.max()

    def cell(name: str, column: str) -> str:
        row = cells.loc[(name, column)]
        text = f"{row[measure]:.3f}"
        if row["kind"] != "ceiling" and round(row[measure], 4) == best[column] > lowest[column]:
            text = f"**{text}**"
        return text + verdict(row, measure)

    return cell


def _beside(name: str, other: str) -> Callable[[Any], str]:
    return lambda row: "" if row.name[0] == other else f"{row[f'{name}_diff']:+.3f}{verdict(row, name)}"


def _mean(row: Any, measure: str) -> str:
    return f"{row[measure]:.3f}{verdict(row, measure)} [{row[f'{measure}_low']:.3f}, {row[f'{measure}_high']:.3f}]"


def _difference(study: Study) -> Callable[[Any, str], str]:
    """With its interval and both corrected p-values, of the t-test and of the randomization test."""

    def text(row: Any, measure: str) -> str:
        if row.name[0] == study.reference:
            return ""
        p_t, p_randomization = (p_text(row[f"{measure}_{test}_holm"]) for test in ("p_t", "p_randomization"))
        difference, low, high = (row[f"{measure}_diff{part}"] for part in ("", "_low", "_high"))
        return f"{difference:+.3f} [{low:+.3f}, {high:+.3f}], p {p_t} / {p_randomization}"

    return text


def _area(study: Study, rows: Any) -> Callable[[str, str], str]:
    def cell(name: str, column: str) -> str:
        row = rows.loc[name]
        if column == "area":
            return f"{row['area']:.4f}"
        reached = f"{study.unit.name}_to_{column[-3:-1]}"
        if row[reached] != row[reached]:
            return "-"
        return f"{'≤ ' if row[f'{reached}_at_first'] else ''}{study.unit.number.format(row[reached])}"

    return cell


def _charged(row: Any) -> str:
    spread = "" if row["docs_p10"] == row["docs_p90"] else f" ({row['docs_p10']:.0f}-{row['docs_p90']:.0f})"
    return f"{row['docs_mean']:.1f}{spread}"


def _calls(row: Any) -> str:
    return f"{row['calls_mean']:.1f} / {row['tokens_mean'] / 1000:.1f} / {row['usd_mean']:.4f}"


def _amount(unit: Unit) -> Callable[[Any], str]:
    def text(row: Any) -> str:
        amount = row[f"{unit.name}_mean"]
        return unit.number.format(0.0 if amount != amount else amount)  # a policy that spends nothing lacks the unit

    return text
