"""Prints tracked runs, as a table, CSV or JSON."""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from experiments.compare.difference import Difference, Row
from experiments.compare.store import TrackedRun
from experiments.publish.terminal import fitting_table, short_p

_NO_TERMINAL = 10_000
"""Width of tables that go to a file or a pipe: all columns have room."""


def print_runs(runs: Sequence[TrackedRun], form: str) -> None:
    """Print a run a line, with the measures that any of them has.

    Args:
        runs: in the order in which they are shown.
        form: ``table``, ``csv`` or ``json``.
    """
    measures = list(dict.fromkeys(name for run in runs for name in run.measures))
    records = [{**_record(run), **{name: run.measures.get(name) for name in measures}} for run in runs]
    heads = ["run", "created", "status", "collection", "policy", "budget", "docs", *measures]
    if all(run.status == "finished" for run in runs):
        heads.remove("status")
    _write(records, heads, form, _counted(len(runs), "run"))


def print_sweeps(sweeps: Sequence[tuple[TrackedRun, int]], form: str) -> None:
    """Print a sweep a line, with the number of its jobs and its command."""
    records = [
        {
            "run": run.short,
            "run_id": run.run_id,
            "created": _date(run.created),
            "status": run.status,
            "name": run.name,
            "jobs": jobs,
            "command": run.tags.get("command", ""),
        }
        for run, jobs in sweeps
    ]
    _write(records, ["run", "created", "status", "name", "jobs", "command"], form, _counted(len(sweeps), "sweep"))


def print_best(best: Sequence[tuple[TrackedRun, str, int]], form: str) -> None:
    """Print the best run of each collection: what :func:`~experiments.compare.store.best_runs` found."""
    records = [
        {**_record(run), "measure": measure, "value": run.measures[measure], "of": of} for run, measure, of in best
    ]
    heads = ["collection", "budget", "policy", "docs", "measure", "value", "run", "of"]
    _write(records, heads, form, "the best of each collection")


def _record(run: TrackedRun) -> dict[str, Any]:
    return {
        "run": run.short,
        "run_id": run.run_id,
        "name": run.name,
        "created": _date(run.created),
        "status": run.status,
        "collection": run.collection,
        "policy": run.policy,
        "budget": run.budget,
        "docs": run.docs,
        "sweep": run.parent or "",
    }


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _date(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M")


def print_difference(found: Difference, names: tuple[str, str], form: str) -> None:
    """Print what differs between two runs.

    Args:
        found: what differs.
        names: of the runs, in the order in which they were compared.
        form: ``table``, ``csv`` or ``json``.
    """
    if form == "json":
        plain = {**asdict(found), "a": names[0], "b": names[1]}
        plain["choices"] = [dict(zip(("name", "a", "b"), choice, strict=True)) for choice in found.choices]
        sys.stdout.write(json.dumps(plain, indent=2) + "\n")
        return
    figures = [("measure", row) for row in found.measures] + [("cost", row) for row in found.costs]
    if form == "csv":
        chosen = [{"kind": "choice", "name": name, "a": a, "b": b} for name, a, b in found.choices]
        _csv([*chosen, *({"kind": kind, **asdict(row)} for kind, row in figures)], ["kind", *asdict(Row("", 0.0, 0.0))])
        return
    a, b = names
    choices = [[name, *(_clipped(word) for word in words)] for name, *words in found.choices]
    if choices:
        _table(["differs", f"A {a}", f"B {b}"], choices, "", left=("differs", f"A {a}", f"B {b}"))
    else:
        sys.stdout.write("the two runs made the same choices, with the same data and code\n")
    shown = [_figures(row, "d" if kind == "measure" else "") for kind, row in figures]
    _table(["", "A", "B", "B less A", "95% interval", "p", "p (Holm)"], shown, "", left=("",))
    sys.stdout.write(_verdict(found) + "\n")


def _figures(row: Row, kind: str) -> list[str]:
    """A line of the table: four digits of measures, one of costs."""
    form, signed = (".4f", "+.4f") if kind else (",.4g", "+,.4g")
    cells = [row.name if kind else f"{row.name} a query", format(row.a, form), format(row.b, form)]
    if row.difference is None or row.low is None or row.high is None:
        return [*cells, "", "", "", ""]
    interval = f"{row.low:{'+.3f' if kind else signed}} {row.high:{'+.3f' if kind else signed}}"
    tested = ("" if p is None else short_p(p) for p in (row.p, row.p_holm))
    return [*cells, format(row.difference, signed), interval, *tested]


def _verdict(found: Difference) -> str:
    if not found.queries:
        return "no judged query in common: the means are of different queries, and nothing can be tested"
    said = f"B is above A on {found.wins} queries, below on {found.losses}, as good on {found.ties}"
    return f"{found.queries} judged queries of both; {found.measures[0].name}: {said}" if found.measures else said


def _clipped(word: str) -> str:
    return word if len(word) <= 60 else f"{word[:57]}..."


def _write(records: Sequence[Mapping[str, Any]], heads: Sequence[str], form: str, title: str) -> None:
    if form == "json":
        sys.stdout.write(json.dumps(records, indent=2) + "\n")
    elif form == "csv":
        _csv(records, list(records[0]) if records else heads)
    else:
        rows = [[_cell(name, record[name]) for name in heads] for record in records]
        words = {"run", "created", "status", "collection", "policy", "budget", "name", "command", "measure"}
        _table(heads, rows, title, left=words)


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.1f}" if name == "docs" else f"{value:.4f}"
    return str(value)


def _csv(records: Sequence[Mapping[str, Any]], heads: Sequence[str]) -> None:
    writer = csv.DictWriter(sys.stdout, heads, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], title: str, *, left: Any) -> None:
    from rich.console import Console

    console = Console(highlight=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(highlight=False, emoji=False, width=_NO_TERMINAL)
    table, left_out = fitting_table(heads, rows, left=left, width=console.width, title=title)
    console.print(table)
    if left_out:
        sys.stderr.write(f"no room for {', '.join(left_out)}: a wider terminal or --format csv has them\n")
