"""The interactive report: one page with Plotly inside, which requests nothing from any server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from experiments.datasets.dataset import Qrels
from experiments.evaluate.record import UNITS
from experiments.report.decisions import ROW, STEP
from experiments.report.markdown import Table, described, tables_of
from experiments.report.plot import costs_of, plot
from experiments.report.recommendation import Recommendation
from experiments.report.study import Cell, Collection, Study
from experiments.report.tables import line_fronts
from ragtune.core.errors import MissingExtraError

PAGE = Path(__file__).with_name("page.html")
STYLE = Path(__file__).with_name("page.css")
SNIPPET = 400
"""Characters of a document's text that the page shows."""


def require_plotly() -> None:
    """Refuse a report that cannot be made, before hours of replay.

    Raises:
        MissingExtraError: if Plotly is not installed.
    """
    try:
        import plotly  # type: ignore[import-untyped]  # noqa: F401
    except ImportError:
        raise MissingExtraError("the HTML report (or choose report=false)", "report") from None


def shown(cells: Iterable[Cell]) -> list[str]:
    """Ids of the documents that the page names, sorted."""
    found = set()
    for cell in cells:
        for decisions in cell.decisions.values():
            found |= {row[ROW.index("doc")] for row in decisions["rows"]} | set(decisions["ranking"])
    return sorted(found)


def grades_of(qrels: Qrels, cells: Iterable[Cell]) -> dict[str, dict[str, int]]:
    """Judgments of the documents that the page names, by query."""
    cells = list(cells)
    named = set(shown(cells))
    traced = dict.fromkeys(query for cell in cells for query in cell.decisions)
    return {q: {doc: grade for doc, grade in sorted(qrels.get(q, {}).items()) if doc in named} for q in traced}


def html(study: Study, cells: Any, policies: Any, advice: Recommendation) -> str:
    """Make the page as HTML.

    Args:
        study: what was measured.
        cells, policies: tables of the study, see ``tables.py``.
        advice: what it recommends.
    """
    from jinja2 import Environment
    from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]

    environment = Environment(autoescape=True)
    environment.filters["marked"] = marked
    template = environment.from_string(PAGE.read_text(encoding="utf-8"))
    data = json.dumps(_data(study, advice), separators=(",", ":"), allow_nan=False)
    return template.render(
        study=study,
        advice=advice,
        notes=[note.replace("`", "") for note in study.notes],
        cost=_cost_of_advice(study, advice),
        style=STYLE.read_text(encoding="utf-8"),
        plotly=get_plotlyjs(),
        data=data.replace("<", "\\u003c"),
        collections=[_collection(study, collection, cells, policies, advice) for collection in study.collections],
    )


class Trusted(str):
    """Text that a template must not escape."""

    def __html__(self) -> str:
        return self


def marked(cell: str) -> Trusted:
    """A cell of a Markdown table as HTML: its bold and its italic text are, and nothing else."""
    bold = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", escape(cell))
    return Trusted(re.sub(r"^\*(.+)\*$", r"<i>\1</i>", bold))


def _collection(study: Study, collection: Collection, cells: Any, policies: Any, advice: Recommendation) -> Any:
    mine = cells[cells["collection"] == collection.name].set_index(["policy", "budget"])
    first, *others = tables_of(study, mine, policies[policies["collection"] == collection.name])
    wanted = {study.reference, advice.policy, next((p.name for p in study.policies if p.kind == "ours"), "")}
    return {
        "name": collection.name,
        "described": described(study, collection),
        "plot": plot(study, collection, wanted),
        "first": first,
        "front": _front(study, collection),
        "others": [*others, _costs(study, collection)],
    }


def _front(study: Study, collection: Collection) -> Table:
    """The points that no other beats in cost and quality; neighbours of the same policies share a row."""
    points: dict[tuple[float, float], list[str]] = {}
    for name, kept in line_fronts(study, collection).items():
        line = collection.lines[name]
        for spent, quality in zip(line.spent[kept].round(6), line.mean[kept, 0].round(6), strict=True):
            points.setdefault((float(spent), float(quality)), []).append(study.by_name[name].label)
    rows = []
    for labels, same in groupby(sorted(points), key=lambda point: " = ".join(dict.fromkeys(points[point]))):
        costs, qualities = zip(*same, strict=True)
        spent = [study.unit.number.format(cost) for cost in costs]
        reached = [f"{quality:.3f}" for quality in qualities]
        rows.append([labels, *(" to ".join(dict.fromkeys((ends[0], ends[-1]))) for ends in (spent, reached))])
    title = "What is worth its cost: no other policy and budget beats these in both cost and quality (Pareto front)"
    return Table(title, ["policy", f"{study.noun} a query", study.measures[0]], rows)


def _costs(study: Study, collection: Collection) -> Table:
    def said(name: str, column: str) -> str:
        costs = costs_of(study.prices, collection.cells[name, column])
        return " / ".join((f"{costs['calls']:.1f}", f"{costs['ms']:,.0f}", f"{costs['usd']:.4f}"))

    rows = [[policy.label, *(said(policy.name, column) for column in study.columns)] for policy in study.policies]
    return Table("Calls / milliseconds / dollars a query, by the study's prices", ["policy", *study.columns], rows)


def _cost_of_advice(study: Study, advice: Recommendation) -> str:
    """What the recommended cell costs in calls and dollars: the rule looks at one unit only."""
    if advice.policy == study.reference:
        return ""
    column = advice.column if advice.column in study.columns else study.columns[0]
    means = []
    for name in (advice.policy, study.reference):
        found = [costs_of(study.prices, collection.cells[name, column]) for collection in study.collections]
        means.append({unit: float(np.mean([costs[unit] for costs in found])) for unit in ("calls", "usd")})
    ours, theirs = means
    warning = " See the costs below before you follow it." if ours["usd"] > 1.05 * theirs["usd"] else ""
    place = " at the same budget" if study.is_grid else ""
    return (
        f"The rule looks at {study.noun}. By the study's prices a query costs {ours['calls']:.1f} calls and "
        f"${ours['usd']:.4f}; with {study.by_name[study.reference].label}{place} it costs {theirs['calls']:.1f} calls "
        f"and ${theirs['usd']:.4f}.{warning}"
    )


def _data(study: Study, advice: Recommendation) -> dict[str, Any]:
    """What the view of the queries shows."""
    others = [policy for policy in study.policies if policy.name != study.reference] or list(study.policies)
    known = {policy.name for policy in others}
    chosen = advice.policy if advice.policy in known else next((p.name for p in others if p.kind == "ours"), "")
    return {
        "reference": study.reference,
        "policy": chosen or others[0].name,
        "column": advice.column if advice.column in study.columns else study.traced_column,
        "columns": list(study.columns),
        "is_grid": study.is_grid,
        "traced_column": study.traced_column,
        "measure": study.measures[0],
        "unit": UNITS.index(study.unit.name),
        "noun": study.noun,
        "labels": {policy.name: policy.label for policy in study.policies},
        "others": [policy.name for policy in others],
        "row": list(ROW),
        "step": list(STEP),
        "collections": [_queries(study, collection) for collection in study.collections],
    }


def _queries(study: Study, collection: Collection) -> dict[str, Any]:
    texts = collection.doc_texts.items()
    keys = [(policy.name, column) for policy in study.policies for column in study.columns]
    traced = {p.name: dict(collection.cells[p.name, study.traced_column].decisions) for p in study.policies}
    return {
        "name": collection.name,
        "queries": list(collection.queries),
        "query_texts": dict(collection.query_texts),
        "doc_texts": {doc: text if len(text) <= SNIPPET else f"{text[:SNIPPET]} …" for doc, text in texts},
        "grades": {query: dict(grades) for query, grades in collection.grades.items()},
        "values": {f"{name}|{c}": collection.cells[name, c].values[:, 0].round(5).tolist() for name, c in keys},
        "spent": {f"{name}|{c}": collection.cells[name, c].in_unit(study.unit).round(6).tolist() for name, c in keys},
        "decisions": {name: decisions for name, decisions in traced.items() if decisions},
    }
