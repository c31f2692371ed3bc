"""What a person sees: progress and tables."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from experiments.config.progress import Progress
from experiments.evaluate.curves import Curve
from experiments.evaluate.record import UNITS

PATIENCE_S = 2.0
"""Anything that takes longer shows a progress bar."""


@contextmanager
def progress_bar(label: str, *, enabled: bool) -> Iterator[Progress]:
    """A bar on a terminal's stderr that appears once the work has taken :data:`PATIENCE_S`."""
    from rich.console import Console

    if not enabled or not Console(file=sys.stderr).is_terminal:
        yield lambda done, total: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(file=sys.stderr), transient=True)
    task = bar.add_task(label, total=None)
    started = time.perf_counter()
    shown = False

    def update(done: int, total: int) -> None:
        nonlocal shown
        if not shown and time.perf_counter() - started > PATIENCE_S:
            bar.start()
            shown = True
        bar.update(task, completed=done, total=total)

    try:
        yield update
    finally:
        if shown:
            bar.stop()


def print_run(summary: Mapping[str, Any], curve: Curve | None, policy: str) -> None:
    """The final table of one run: measures with intervals, the cost curve in a few rows, why queries stopped."""
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    title = escape(f"{summary['dataset']} - {summary['queries']} queries - {policy}")
    prices = _priced(curve)
    # With the costs of each row beside it, every interval still fits into 80 columns.
    spacing: dict[str, Any] = {"padding": 0, "pad_edge": False} if prices else {}
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", **spacing)
    names = list(summary["measures"])
    table.add_column("documents\nper query", justify="right")
    for name in (*prices, *names):
        table.add_column(name, justify="right")
    for step in _few(len(curve.docs)) if curve else ():
        assert curve is not None
        costs = [shape.format(curve.costs[step, UNITS.index(unit)]) for unit, shape in prices.values()]
        cells = [f"{curve.mean[step, j]:.3f}" for j in range(len(names))]
        table.add_row(f"{curve.docs[step]}", *costs, *cells)
    table.add_section()
    blank = [""] * len(prices)
    table.add_row("final", *blank, *(f"[bold]{value:.4f}[/bold]" for value in summary["measures"].values()))
    table.add_row("95% interval", *blank, *(f"{low:.3f}-{high:.3f}" for low, high in summary["interval"].values()))
    console.print(table)
    console.print(_costs_line(summary))
    stops = ", ".join(f"{reason} {count}" for reason, count in summary["stop_reasons"].items())
    console.print(f"stopped: {stops}; 95% of the final quality at {summary['docs_to_95pct']} documents a query")
    if summary["dropped_docs"]:
        console.print(f"[bold]{_unscored_line(summary)}[/bold]")
    if summary["latency_overrun_ms"]["queries"]:
        console.print(_late_line(summary["latency_overrun_ms"]))
    for what, count in summary["warnings"].items():
        console.print(f"warning: {count} {what}")


def _unscored_line(summary: Mapping[str, Any]) -> str:
    failures = summary["failures"]
    return (
        f"without a score, so ranked behind: {summary['dropped_docs']} documents; "
        f"{failures['batches_failed']} of {failures['batches_sent']} batches failed (see traces)"
    )


def _late_line(late: Mapping[str, Any]) -> str:
    by = f"{late['mean']:.0f} ms on average, {late['max']:.0f} at most"
    return f"past the time limit: {late['queries']} queries, by {by}"


def _priced(curve: Curve | None) -> dict[str, tuple[str, str]]:
    """Columns for what a query cost so far, where it cost money: unit and format by heading."""
    if curve is None or not curve.costs[:, UNITS.index("usd")].any():
        return {}
    return {"tokens": ("tokens", "{:.0f}"), "US$": ("usd", "{:.5f}")}


def _costs_line(summary: Mapping[str, Any]) -> str:
    charged = summary["cost_per_query"]["charged"]
    actual = summary["cost_per_query"]["actual"]
    return (
        f"charged per query: {charged['docs']:.1f} documents, {charged['calls']:.1f} calls, "
        f"{charged['tokens']:.0f} tokens, {charged['latency_ms']:.0f} ms, ${charged['usd']:.4f}; "
        f"actually paid: {actual['docs']:.1f} documents, {actual['tokens']:.0f} tokens, ${actual['usd']:.4f}"
    )


def _few(n: int, limit: int = 8) -> list[int]:
    """At most ``limit`` positions out of ``n``, evenly spread, ends included."""
    if n <= limit:
        return list(range(n))
    return sorted({round(i * (n - 1) / (limit - 1)) for i in range(limit)})


def print_queries(table: Any) -> None:
    """Every query on a line (verbosity 2)."""
    from rich.console import Console

    Console(highlight=False, markup=False, soft_wrap=True).print(table.to_string(index=False))


def print_path(folder: Path) -> None:
    """The last line of a run: where its files are."""
    sys.stdout.write(f"{folder}\n")
    sys.stdout.flush()


def print_sweep(summaries: Sequence[Mapping[str, Any]], csv: Path) -> None:
    """One row a job, best headline measure first; the same table goes to ``csv`` in job order."""
    import pandas as pd
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    if not summaries:
        return
    choices = _varying_choices(summaries)
    figures = [{**s["measures"], "AUCC": s["aucc"], "docs": s["cost_per_query"]["charged"]["docs"]} for s in summaries]
    rows = [
        {"job": s["job"], **choice, **figure, "mlflow_run_id": s["mlflow_run_id"]}
        for s, choice, figure in zip(summaries, choices, figures, strict=True)
    ]
    pd.DataFrame(rows).to_csv(csv, index=False, lineterminator="\n")
    table = Table(title=f"{len(rows)} runs", box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for key in ("job", *choices[0]):
        table.add_column(escape(key.rpartition(".")[2]), justify="right" if key == "job" else "left", no_wrap=True)
    for name in figures[0]:
        table.add_column(name, justify="right", min_width=len(name))
    headline = next(iter(summaries[0]["measures"]))
    for row in sorted(rows, key=lambda r: -r[headline]):
        chosen = [escape(str(row[key])) for key in ("job", *choices[0])]
        table.add_row(*chosen, *(f"{row[name]:.1f}" if name == "docs" else f"{row[name]:.3f}" for name in figures[0]))
    Console(highlight=False).print(table)


def _varying_choices(summaries: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Each job's overrides, by key, as far as they differ between jobs (all of a single job's)."""
    given = [dict(override.partition("=")[::2] for override in s["overrides"]) for s in summaries]
    keys = list(dict.fromkeys(key for choice in given for key in choice))
    varying = [key for key in keys if len({choice.get(key) for choice in given}) > 1 or len(given) == 1]
    return [{key: choice.get(key, "") for key in varying} for choice in given]
