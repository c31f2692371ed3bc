"""The interactive report: one page with Plotly inside, which requests nothing from any server."""

from __future__ import annotations

import html as escaping
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from experiments.datasets.dataset import Qrels
from experiments.evaluate.record import UNITS
from experiments.report.decisions import ROW, STEP
from experiments.report.figures import styles
from experiments.report.recommendation import recommendation
from experiments.report.study import Cell, Collection, Line, Study
from experiments.report.tables import verdict
from ragtune.core.errors import MissingExtraError

PAGE = Path(__file__).with_name("page")
SCRIPTS = ("base.js", "costs.js", "quality.js", "queries.js", "start.js")
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


def html(study: Study, cells: Any, policies: Any) -> str:
    """Make the page as HTML.

    Args:
        study: what was measured.
        cells, policies: tables of the study, see ``tables.py``.
    """
    from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]

    data = json.dumps(_data(study, cells, policies), separators=(",", ":"), allow_nan=False)
    parts = {
        "TITLE": escaping.escape(study.title),
        "STYLE": (PAGE / "page.css").read_text(encoding="utf-8"),
        "PLOTLY": get_plotlyjs(),
        "DATA": data.replace("<", "\\u003c"),
        "SCRIPT": "\n".join((PAGE / name).read_text(encoding="utf-8") for name in SCRIPTS),
    }
    pieces = (PAGE / "page.html").read_text(encoding="utf-8").split("@@")
    return "".join(parts.get(piece, piece) for piece in pieces)


def _data(study: Study, cells: Any, policies: Any) -> dict[str, Any]:
    return {
        "name": study.title,
        "command": study.command,
        "git_sha": study.git_sha,
        "measures": list(study.measures),
        "units": list(UNITS),
        "reference": study.reference,
        "columns": list(study.columns),
        "notes": [note.replace("`", "") for note in study.notes],
        "columns_are_budgets": study.is_grid,
        "traced_column": study.traced_column,
        "target_label": study.target_label,
        "level": study.level,
        "resamples": study.resamples,
        "permutations": study.permutations,
        "prices": vars(study.prices),
        "advice": vars(recommendation(cells, study.measures[0])),
        "policies": _policies(study),
        "fields": list(ROW),
        "step_fields": list(STEP),
        "collections": [_collection(study, collection, cells, policies) for collection in study.collections],
    }


_PLOTLY_MARKERS = {
    "o": ("circle", "●"), "P": ("cross", "✚"), "X": ("x", "✖"), "*": ("star", "★"), "s": ("square-open", "□"),
    "D": ("diamond", "◆"), "^": ("triangle-up", "▲"), "v": ("triangle-down", "▼"), "<": ("triangle-left", "◀"),
    ">": ("triangle-right", "▶"), "p": ("pentagon", "⬟"), "h": ("hexagon", "⬢"), "+": ("cross-thin-open", "+"),
    "x": ("x-thin-open", "✕"), "1": ("y-down-open", "Y"),
}  # fmt: skip
"""Matplotlib's markers as Plotly calls them, and as a letter of a legend."""


def _policies(study: Study) -> list[dict[str, Any]]:
    found = []
    for policy in study.policies:
        style = styles(study)[policy.name]
        marker, sign = _PLOTLY_MARKERS[style.marker]
        dash = "solid" if style.dash == "-" else ",".join(f"{2 * length:g}px" for length in style.dash[1])
        found.append({**vars(policy), "ink": style.ink, "dash": dash, "marker": marker, "sign": sign})
    return found


def _collection(study: Study, collection: Collection, cells: Any, policies: Any) -> dict[str, Any]:
    rows = cells[cells["collection"] == collection.name].set_index(["policy", "budget"])
    summary = policies[policies["collection"] == collection.name].set_index("policy")
    return {
        "name": collection.name,
        "queries": list(collection.queries),
        "query_texts": dict(collection.query_texts),
        "doc_texts": {doc: _cut(text) for doc, text in collection.doc_texts.items()},
        "grades": {query: dict(grades) for query, grades in collection.grades.items()},
        "target": _rounded(collection.target),
        "target_docs": round(collection.target_spent, 2),
        "lines": {name: _line(line) for name, line in collection.lines.items()},
        "curves": {name: _line(line) for name, line in collection.curves.items()},
        "start": None if collection.start is None else _rounded(collection.start),
        "totals": _totals(collection),
        "cells": {
            policy.name: {column: _cell(study, rows.loc[(policy.name, column)]) for column in study.columns}
            for policy in study.policies
        },
        "values": {
            policy.name: {c: _rounded(collection.cells[policy.name, c].values.T) for c in study.columns}
            for policy in study.policies
        },
        **{
            name: {
                policy.name: {c: getattr(collection.cells[policy.name, c], part).tolist() for c in study.columns}
                for policy in study.policies
            }
            for name, part in (("charged", "docs"), ("calls", "calls"))
        },
        "summary": {policy.name: _summary(summary.loc[policy.name]) for policy in study.policies},
        "decisions": {
            policy.name: dict(decisions)
            for policy in study.policies
            if (decisions := collection.cells[policy.name, study.traced_column].decisions)
        },
    }


def _totals(collection: Collection) -> dict[str, float]:
    """What all cells together were charged, which tells the units that are known."""
    charged = sum(cell.charged.sum(axis=0) for cell in collection.cells.values())
    return {unit: round(float(amount), 6) for unit, amount in zip(UNITS, charged, strict=True)}


def _line(line: Line) -> dict[str, Any]:
    return {
        **{unit: [_number(x) for x in amounts] for unit, amounts in zip(UNITS[1:], line.costs.T[1:], strict=True)},
        "allowed": line.allowed.tolist(),
        "steps": line.steps,
        "docs": _rounded(line.spent),
        **{key: _rounded(getattr(line, key).T) for key in ("mean", "low", "high")},
    }


def _cell(study: Study, row: Any) -> dict[str, Any]:
    of_measure = [
        {
            "mean": _number(row[m]),
            "low": _number(row[f"{m}_low"]),
            "high": _number(row[f"{m}_high"]),
            "diff": _number(row[f"{m}_diff"]),
            "diff_low": _number(row[f"{m}_diff_low"]),
            "diff_high": _number(row[f"{m}_diff_high"]),
            "p_t": _number(row[f"{m}_p_t_holm"], 3),
            "p_randomization": _number(row[f"{m}_p_randomization_holm"], 3),
            "verdict": verdict(row, m),
        }
        for m in study.measures
    ]
    keys = ("docs_mean", "docs_p10", "docs_median", "docs_p90", "calls_mean", "expanded_mean")
    costs: dict[str, float | None] = {key: round(float(row[key]), 2) for key in keys}
    costs |= {f"{key}_mean": _number(row.get(f"{key}_mean", 0.0)) for key in UNITS[2:]}
    stops = json.loads(row["stop_reasons"])
    return {"measures": of_measure, **costs, "stops": stops, "on_front": bool(row["on_front"])}


def _summary(row: Any) -> dict[str, Any]:
    keys = ("area", "area_log", "docs_to_95", "docs_to_99", "largest_fall")
    firsts = {f"docs_to_{p}_at_first": bool(row[f"docs_to_{p}_at_first"]) for p in (95, 99)}
    return {key: _number(row[key]) for key in keys} | firsts


def _number(value: Any, digits: int = 6) -> float | None:
    """Rounded; NaN and None become None, very small numbers keep three significant digits."""
    if value is None or value != value:
        return None
    return float(f"{value:.3g}") if abs(value) < 10**-digits else round(float(value), digits)


def _rounded(values: Any) -> Any:
    return values.round(5).tolist()  # shown with three digits: of four, 0.78253 would be shown as 0.782


def _cut(text: str) -> str:
    return text if len(text) <= SNIPPET else text[:SNIPPET].rsplit(" ", 1)[0] + " …"
