"""The table of a sweep: one row a job, on the terminal and as CSV, Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.evaluate.significance import holm
from experiments.evaluate.summary import Summary
from experiments.publish.terminal import short

if TYPE_CHECKING:
    from rich.table import Table

BASELINE = "fixed depth"
SIGNIFICANT = 0.05
"""Level of the corrected p-values."""

NOTE = f"*: differs from {BASELINE} under the same budget, p < {SIGNIFICANT} after Holm's correction for the jobs."


def print_sweep(summaries: Mapping[str, Summary], folder: Path) -> list[Path]:
    """Print one row a job, the best headline measure first, and write the table as ``sweep.csv``, ``.md`` and ``.tex``.

    Each job stands with the interval of its headline and, where scores are recorded, its difference from fixed depth
    under the job's own budget, marked where it is significant after Holm's correction for the number of jobs. The CSV
    holds every figure in the order of the jobs; the others hold what is printed, and what a narrow terminal cuts off.

    Args:
        summaries: the summary of each job, by the name of the job.
        folder: where the files go.

    Returns:
        The files; none without a finished job.
    """
    import pandas as pd
    from rich.console import Console

    if not summaries:
        return []
    choices = _varying_choices(list(summaries.values()))
    rows = _rows(summaries, choices)
    pd.DataFrame(rows).to_csv(folder / "sweep.csv", index=False, lineterminator="\n")
    columns = ["rank", "job", *choices[0], *_FIGURES, *list(next(iter(summaries.values())).measures)[1:], "AUCC"]
    headline = next(iter(next(iter(summaries.values())).measures))
    shown = [_shown(row, headline, columns) for row in sorted(rows, key=lambda row: int(row["rank"]))]
    heads = [headline if column == "headline" else column.rpartition(".")[2] for column in columns]
    note = NOTE if any("diff" in row for row in rows) else ""
    console = Console(highlight=False)
    console.print(_fitting(heads, shown, choices[0], console.width))
    if note:
        console.print(note)
    (folder / "sweep.md").write_text(f"{_markdown(heads, shown)}\n{note}\n", encoding="utf-8")
    tex = pd.DataFrame(shown, columns=heads).to_latex(index=False, escape=True)
    (folder / "sweep.tex").write_text(tex, encoding="utf-8")
    return [folder / f"sweep.{kind}" for kind in ("csv", "md", "tex")]


_FIGURES = ("headline", "95% interval", "docs", f"vs {BASELINE}")


def _fitting(heads: Sequence[str], rows: Sequence[Sequence[str]], choices: Collection[str], width: int) -> Table:
    """As many of the first columns as have room."""
    from rich.console import Console

    wide = Console(width=10_000)
    tables = (_table(heads[:fit], rows, choices) for fit in range(len(heads), 0, -1))
    return next((table for table in tables if wide.measure(table).minimum <= width), _table(heads[:1], rows, choices))


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], choices: Collection[str]) -> Table:
    """The first columns of the rows, under headings of one word a line."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=f"{len(rows)} runs", box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    names = {choice.rpartition(".")[2] for choice in choices}
    for head in heads:
        lines = head.replace("_", " ").replace(" ", "\n")
        table.add_column(escape(lines), justify="left" if head in names else "right", no_wrap=True)
    for row in rows:
        table.add_row(*map(escape, row[: len(heads)]))
    return table


def _rows(summaries: Mapping[str, Summary], choices: Sequence[Mapping[str, str]]) -> list[dict[str, Any]]:
    finished = list(summaries.values())
    headline = next(iter(finished[0].measures))
    against = [(summary.incumbents or {}).get(BASELINE) for summary in finished]
    tested = [comparison.p[headline] for comparison in against if comparison is not None]
    corrected = iter(holm(tested).tolist())
    best = sorted((summary.measures[headline] for summary in finished), reverse=True)
    rows = []
    for (job, summary), choice, comparison in zip(summaries.items(), choices, against, strict=True):
        low, high = summary.interval.get(headline, (None, None))
        row: dict[str, Any] = {"rank": best.index(summary.measures[headline]) + 1, "job": job, **choice}
        row |= {**summary.measures, f"{headline}_low": low, f"{headline}_high": high, "AUCC": summary.aucc}
        row["docs"] = summary.cost_per_query.charged["docs"]
        if comparison is not None:
            low, high = comparison.interval[headline]
            row |= {"diff": comparison.difference[headline], "diff_low": low, "diff_high": high}
            row |= {"p": comparison.p[headline], "p_holm": next(corrected)}
        rows.append({**row, "mlflow_run_id": summary.mlflow_run_id})
    return rows


def _shown(row: Mapping[str, Any], headline: str, columns: Sequence[str]) -> list[str]:
    cells = dict(row)
    cells["headline"] = row[headline]
    cells["95% interval"] = "-".join(short(row[f"{headline}_{end}"], ".3f") for end in ("low", "high"))
    cells["docs"] = f"{row['docs']:.1f}"
    cells[f"vs {BASELINE}"] = "" if "diff" not in row else short(row["diff"], "+.3f") + _mark(row)
    return [short(cell, ".3f") if isinstance(cell := cells[column], float) else str(cell) for column in columns]


def _mark(row: Mapping[str, Any]) -> str:
    return "" if row["p_holm"] >= SIGNIFICANT else "*"


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    table = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
    return f"{table}\n"


def _varying_choices(summaries: Sequence[Summary]) -> list[dict[str, str]]:
    """Each job's overrides, by key, as far as they differ between jobs (all of a single job's)."""
    given = [dict(override.partition("=")[::2] for override in s.overrides) for s in summaries]
    keys = list(dict.fromkeys(key for choice in given for key in choice))
    varying = [key for key in keys if len({choice.get(key) for choice in given}) > 1 or len(given) == 1]
    return [{key: choice.get(key, "") for key in varying} for choice in given]
