"""The tables and lines that are printed of runs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.evaluate.baselines import AGREEMENT, FULL, INTERPOLATED
from experiments.evaluate.curves import Curve
from experiments.evaluate.record import UNITS, told
from experiments.evaluate.summary import Agreement, Comparison, Summary
from experiments.publish.figures import Columns
from ragtune.core.units import MONEY, TOKENS
from ragtune.core.units import UNITS as ALL

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def print_run(summary: Summary, curve: Curve) -> None:
    """Print the final table of one run: measures with intervals, the cost curve in a few rows, why queries stopped."""
    console = new_console()
    baselines = summary.baselines or {}
    table = _run_table(summary, curve, _priced(curve))
    if width_of(table, console) > console.width:  # what it cost stands in a line of its own, too
        table = _run_table(summary, curve, {})
    console.width = max(console.width, width_of(table, console))  # a narrow terminal folds lines, and cuts no figure
    console.print(table)
    start = "the policy, before any score" if _starts_apart(summary, curve) else "the first stage alone"
    console.print(f"at 0 documents: {start}")
    console.print(_costs_line(summary))
    if trust := summary.trust:
        sample = f"over {trust.queries} queries, at most {trust.docs_per_query} scores each"
        seen = f"{trust.correlation:+.2f} ± {trust.error:.2f} {sample}"
        console.print(f"trust {trust.value:g}: the correlation of reranker and first stage is {seen}")
    if rewrites := summary.rewrites:
        found = f"{rewrites.new_docs_per_rewrite:.1f} new documents a rewrite"
        console.print(f"rewrites: {rewrites.per_query:.1f} a query, {found}")
    if against_all := baselines.get(FULL):
        console.print(_agreement_line(against_all.agreement, measured=AGREEMENT in summary.measures))
    stops = ", ".join(f"{reason} {count}" for reason, count in summary.stop_reasons.items())
    console.print(f"stopped: {stops}; 95% of the final quality at {summary.docs_to_95pct} documents a query")
    if summary.tied_share and summary.tied_share >= MANY_TIES:
        console.print(
            f"ties: {summary.tied_share:.0%} of the scores that decide a top 10 are equal to another one; the "
            "first stage orders them (reranker.ties=trec_eval orders them as trec_eval does, to compare "
            "with published figures)"
        )
    failures, lost = summary.failures, ""
    if summary.dropped_docs:
        lost = f"without a score, ordered like unscored candidates: {summary.dropped_docs} documents; "
    if lost or failures.batches_failed:
        failed = f"{failures.batches_failed} of {failures.batches_sent} batches failed (see traces)"
        console.print(f"[bold]{lost}{failed}[/bold]")
    if (late := summary.latency_overrun_ms).queries:
        by = f"{late.mean:.0f} ms on average, {late.max:.0f} at most"
        console.print(f"past the time limit: {late.queries} queries, by {by}")
    for what, count in summary.warnings.items():
        print_warning(f"{count} {what}")


def _run_table(summary: Summary, curve: Curve, prices: Mapping[str, tuple[str, str]]) -> Table:
    # With the costs of each row beside it, every interval still fits into 80 columns.
    spacing: dict[str, Any] = {"padding": 0, "pad_edge": False} if prices else {}
    title = f"{summary.dataset} - {summary.queries} queries - {summary.policy}"
    table = new_table(title, title_style="bold", **spacing)
    names, blank = list(summary.measures), [""] * len(prices)
    table.add_column("documents\nper query", justify="right")
    for name in (*prices, *names):
        table.add_column(name, justify="right", no_wrap=True)
    _add_curve(table, summary, curve, prices)
    table.add_section()
    table.add_row("final", *blank, *(f"[bold]{summary.measures[name]:.4f}[/bold]" for name in names))
    table.add_row("95% interval", *blank, *("{:.3f}-{:.3f}".format(*summary.interval[name]) for name in names))
    baselines = summary.baselines or {}
    for name, against in baselines.items():
        if name == FULL or against != baselines.get(FULL):  # fixed depth may come to that
            _add_comparison(table, name, against, blank)
    return table


def new_console(**options: Any) -> Console:
    """A console that prints what it is given as it is."""
    from rich.console import Console

    return Console(highlight=False, emoji=False, **options)


def new_table(title: str, **options: Any) -> Table:
    """A table under a title that is printed as it is."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    return Table(title=escape(title), box=box.SIMPLE_HEAD, title_justify="left", **options)


def width_of(table: Table, console: Console) -> int:
    """Characters that a table takes if nothing is folded."""
    return console.measure(table, options=console.options.update(width=1000)).maximum


def _add_curve(table: Table, summary: Summary, curve: Curve, prices: Mapping[str, tuple[str, str]]) -> None:
    if _starts_apart(summary, curve):
        table.add_row("first stage", *([""] * len(prices)), *(f"{value:.3f}" for value in summary.first_stage.values()))
    last = len(curve.docs) - 1
    for step in sorted({round(i * last / 7) for i in range(8)}):
        costs = [shape.format(curve.costs[step, UNITS.index(unit)]) for unit, shape in prices.values()]
        table.add_row(f"{curve.docs[step]}", *costs, *(f"{value:.3f}" for value in curve.mean[step]))


def _starts_apart(summary: Summary, curve: Curve) -> bool:
    """Whether the policy orders the pool in another way than the first stage, before it reranks anything."""
    starts = zip(summary.first_stage.values(), curve.mean[0], strict=False)
    return any(f"{first:.3f}" != f"{own:.3f}" for first, own in starts)


MANY_TIES = 0.05
"""Share of tied scores from which a run reports it."""


def _agreement_line(agreement: Agreement, *, measured: bool) -> str:
    tau = "" if agreement.tau is None else f", Kendall's tau {short(agreement.tau, '.3f')}"
    order = f"rank-biased overlap {short(agreement.rbo, '.3f')}{tau}"
    if measured:
        return f"{AGREEMENT}: share of the top 10 of full reranking, without judgments; final order of both: {order}"
    shares = f"{AGREEMENT} {short(agreement.overlap, '.3f')}, {order}"
    return f"top 10 compared with that of full reranking, without judgments: {shares}"


def print_warning(words: str) -> None:
    """Print what is odd in a run."""
    new_console(markup=False).print(f"warning: {words}")


def _add_comparison(table: Table, name: str, against: Comparison, blank: Sequence[str]) -> None:
    table.add_section()
    label = "interpolated" if name == INTERPOLATED else name  # so that four measures fit into 80 columns
    means, differences, intervals = against.measures.values(), against.difference.values(), against.interval.values()
    table.add_row(f"{label} ({against.docs_per_query:.0f})", *blank, *(f"{mean:.4f}" for mean in means))
    table.add_row("difference", *blank, *(f"[bold]{difference:+.4f}[/bold]" for difference in differences))
    table.add_row("95% interval", *blank, *(f"{short(low, '+.3f')} {short(high, '+.3f')}" for low, high in intervals))
    table.add_row("p", *blank, *map(short_p, against.p_holm.values()))


def short(value: float, form: str) -> str:
    """A number without the zero before its point."""
    return format(value, form).replace("0.", ".", 1)


def short_p(p: float) -> str:
    """A p-value, as tables of the terminal write it."""
    return "<.001" if p < 0.001 else short(p, ".3f")


def _priced(curve: Curve) -> dict[str, tuple[str, str]]:
    """Columns for what a query cost so far, where it cost money or what is not always known: unit and format."""
    costs_money = curve.costs[:, UNITS.index(MONEY.name)].any()
    columns = {"tokens": (TOKENS.name, "{:.0f}"), "US$": (MONEY.name, "{:.5f}")} if costs_money else {}
    units = [ALL[i] for i in told(curve.costs) if not ALL[i].is_always_told]
    return columns | {unit.label: (unit.name, unit.number) for unit in units}


def _costs_line(summary: Summary) -> str:
    charged, actual = summary.cost_per_query.charged, summary.cost_per_query.actual
    names = {unit.name: unit for unit in ALL if not unit.is_always_told}
    further = "".join(f", {unit.number.format(charged[n])} {unit.label}" for n, unit in names.items() if n in charged)
    return (
        f"charged per query: {charged['docs']:.1f} documents, {charged['calls']:.1f} calls, "
        f"{charged['tokens']:.0f} tokens, {charged['latency_ms']:.0f} ms, ${charged['usd']:.4f}{further}; "
        f"actually paid: {actual['docs']:.1f} documents, {actual['tokens']:.0f} tokens, ${actual['usd']:.4f}"
    )


def print_queries(table: Columns) -> None:
    """Print one line a query (verbosity 2)."""
    import pandas as pd

    new_console(markup=False, soft_wrap=True).print(pd.DataFrame(table).to_string(index=False))


def print_path(folder: Path) -> None:
    """Print the last line of a run: the folder of its files."""
    sys.stdout.write(f"{folder}\n")
    sys.stdout.flush()
