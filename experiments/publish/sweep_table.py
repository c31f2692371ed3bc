"""What a sweep reports: its table, on the terminal and as CSV and Markdown, and the figures of its parent run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.config.options import choices_of
from experiments.evaluate.baselines import FIXED_DEPTH
from experiments.evaluate.curves import area
from experiments.evaluate.significance import SIGNIFICANT, holm
from experiments.evaluate.summary import Summary
from experiments.publish.described import HEADLINE, allowed, markdown_table, policy_title
from experiments.publish.files import CURVE, read_csv, write_csv, write_text
from experiments.publish.terminal import new_console, new_table, short, short_p, width_of

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

NOTE = f"*: differs from {FIXED_DEPTH} under the same budget, p < {SIGNIFICANT} after Holm's correction for the jobs."


def print_sweep(summaries: Mapping[str, Summary], folder: Path, *, partial: str = "") -> list[Path]:
    """Print one row a job, the best headline measure first, and write the table as ``sweep.csv`` and ``sweep.md``."""
    files = [folder / f"sweep.{kind}" for kind in ("csv", "md")]
    if not summaries:
        for file in files:  # of the jobs that were here before
            file.unlink(missing_ok=True)
        return []
    headline, *others = next(iter(summaries.values())).measures
    choices = _varying_choices([summary.overrides for summary in summaries.values()])
    areas, deepest = _areas(folder, summaries, headline)
    rows = _rows(summaries, choices, areas, headline)
    if partial:
        rows = [{**row, "partial": partial} for row in rows]
    named = dict.fromkeys(name for row in rows for name in row)
    write_csv(folder / "sweep.csv", {name: [row.get(name) for row in rows] for name in named})
    is_tested = "p_holm" in named
    figures = ["95% interval", "docs", *(_TESTED if is_tested else ()), *others, "AUCC"]
    options = _headings(choices[0], ["rank", "job", headline, *figures])
    heads = {"rank": "rank", "job": "job", **options, headline: headline} | {name: name for name in figures}
    ordered = sorted(rows, key=lambda row: int(row["rank"]))
    shown = [{heads[name]: cell for name, cell in _cells(row, headline, heads).items()} for row in ordered]
    notes = {"job": f"partial: {partial} finished, then the sweep was interrupted"} if partial else {}
    notes |= {_TESTED[0]: NOTE} if is_tested else {}
    notes |= {"AUCC": f"AUCC: mean {headline} from 0 to {deepest} documents a query"} if areas else {}
    console = new_console()
    words = list(options.values())
    table, left_out = _fitting(shown, words, ["rank", "job", headline], console)
    console.print(table)
    for column, note in notes.items():
        if column not in left_out:
            console.print(note)
    if left_out:
        console.print(f"no room for {', '.join(left_out)}: sweep.md and sweep.csv have all columns")
    markdown = markdown_table(list(heads.values()), [list(cells.values()) for cells in shown])
    write_text(folder / "sweep.md", "\n\n".join([markdown, *(notes.values() or [""])]) + "\n")
    return files


_TESTED = (f"vs {FIXED_DEPTH}", "interval of it", "p (Holm)")


def _headings(options: Iterable[str], others: Sequence[str]) -> dict[str, str]:
    """Options by the last parts of their names, as far as those tell them apart."""
    last = {option: option.rpartition(".")[2] for option in options}
    count = Counter([*others, *last.values()])
    return {option: name if count[name] == 1 else option for option, name in last.items()}


def _areas(folder: Path, summaries: Mapping[str, Summary], headline: str) -> tuple[dict[str, float], int]:
    """The area under each job's curve of the headline, and the documents to which the deepest job went."""
    tables = {job: read_csv(file) for job in summaries if (file := folder / job / CURVE).is_file()}
    lines = {
        job: (np.array(table["documents"], dtype=float), np.array(table[headline], dtype=float))
        for job, table in tables.items()
        if headline in table
    }
    deepest = max((docs[-1] for docs, _ in lines.values()), default=0.0)
    return {job: area(*line, 0.0, deepest, stepwise=True) for job, line in lines.items()}, int(deepest)


def _rows(
    summaries: Mapping[str, Summary], choices: Sequence[Mapping[str, str]], areas: Mapping[str, float], headline: str
) -> list[dict[str, Any]]:
    baselines = {job: summary.baselines or {} for job, summary in summaries.items()}
    against = {job: found[FIXED_DEPTH] for job, found in baselines.items() if FIXED_DEPTH in found}
    corrected = dict(zip(against, holm([found.p[headline] for found in against.values()]).tolist(), strict=True))
    best = sorted((summary.measures[headline] for summary in summaries.values()), reverse=True)
    rows = []
    for (job, summary), choice in zip(summaries.items(), choices, strict=True):
        low, high = summary.interval.get(headline, (None, None))
        row: dict[str, Any] = {"rank": best.index(summary.measures[headline]) + 1, "job": job, **choice}
        row |= {**summary.measures, f"{headline}_low": low, f"{headline}_high": high, "AUCC": areas.get(job, "")}
        row["docs"] = summary.cost_per_query.charged["docs"]
        if found := against.get(job):
            low, high = found.interval[headline]
            row |= {"diff": found.difference[headline], "diff_low": low, "diff_high": high}
            row |= {"p": found.p[headline], "p_holm": corrected[job]}
        rows.append({**row, "mlflow_run_id": summary.mlflow_run_id})
    return rows


def _cells(row: Mapping[str, Any], headline: str, columns: Iterable[str]) -> dict[str, str]:
    cells = {**row, **dict.fromkeys(_TESTED, "")}
    cells["95% interval"] = "-".join(short(row[f"{headline}_{end}"], ".3f") for end in ("low", "high"))
    cells["docs"] = f"{row['docs']:.1f}"
    if "diff" in row:
        mark = "*" if row["p_holm"] < SIGNIFICANT else ""
        interval = " ".join(short(row[f"diff_{end}"], "+.3f") for end in ("low", "high"))
        cells |= zip(_TESTED, (short(row["diff"], "+.3f") + mark, interval, short_p(row["p_holm"])), strict=True)
    return {column: _cell(cells[column]) for column in columns}


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return short(value, ".3f")
    # What a sampler has proposed has as many digits as a float can.
    return f"{float(value):.4g}" if re.fullmatch(r"-?\d+\.\d{4,}(e-?\d+)?", str(value)) else str(value)


def _fitting(
    rows: Sequence[Mapping[str, str]], words: Sequence[str], numbers: Sequence[str], console: Console
) -> tuple[Table, list[str]]:
    """A table of the columns that have room, columns of words folded first, and the headings of the others."""
    shown, limit = list(rows[0]), None
    if words and width_of(_table(rows, shown, words), console) > console.width:
        room = console.width - width_of(_table(rows, numbers, words), console)
        limit = max(_LEAST, room // len(words) - _GAP)
    others = [head for head in shown if head not in (*words, *numbers)]
    while others and width_of(_table(rows, shown, words, limit), console) > console.width:
        shown.remove(others.pop())
    return _table(rows, shown, words, limit), [head for head in rows[0] if head not in shown]


_GAP = 3

_LEAST = 8


def _table(
    rows: Sequence[Mapping[str, str]], shown: Iterable[str], words: Collection[str], limit: int | None = None
) -> Table:
    from rich.markup import escape

    table = new_table(f"{len(rows)} run{'s' * (len(rows) != 1)}", pad_edge=False)
    for head in shown:
        stacked = escape(head.replace("_", " ").replace("=", "= ").replace(",", ", ").replace(" ", "\n"))
        if head in words:
            table.add_column(stacked, overflow="fold", max_width=limit)
        else:
            table.add_column(stacked, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*(escape(row[head]) for head in shown))
    return table


def _varying_choices(overrides: Sequence[Sequence[str]]) -> list[dict[str, str]]:
    """Each job's overrides, by key, as far as they differ between jobs (all of a single job's)."""
    given = list(map(choices_of, overrides))
    keys = list(dict.fromkeys(key for choice in given for key in choice))
    varying = [key for key in keys if len({choice.get(key) for choice in given}) > 1 or len(given) == 1]
    return [{key: choice.get(key, "") for key in varying} for choice in given]


@dataclass(frozen=True)
class SweepFigures:
    """The jobs of a sweep as its parent run counts them."""

    jobs: Mapping[str, Summary] = field(default_factory=dict)  # the finished ones, by name
    failed: int = 0
    planned: int = 0  # 0 where a sampler decides as it goes
    partial: str = ""  # what an interrupted sweep has finished, in words

    def metrics(self) -> dict[str, float]:
        """The best job's measures and documents, of each collection if there are several, and the counts of jobs."""
        found: dict[str, float] = {}
        best = self._best()
        for job in map(self.jobs.__getitem__, best):
            where = f"{allowed(job.dataset)}/" if len(best) > 1 else ""
            found |= {f"{where}{allowed(name)}": value for name, value in job.measures.items()}
            found[f"{where}{HEADLINE}"] = job.headline
            found[f"{where}charged_docs"] = job.cost_per_query.charged["docs"]
            found[f"{where}failed_batches"] = job.failures.batches_failed
        found |= {"jobs_finished": len(self.jobs), "jobs_failed": self.failed, "jobs_untracked": self._untracked()}
        return found | ({"jobs_planned": self.planned} if self.planned else {})

    def tags(self) -> dict[str, str]:
        batches = sum(job.failures.batches_failed for job in self.jobs.values())
        counts = {"jobs failed": self.failed, "jobs not tracked": self._untracked()}
        counts["batches failed in finished jobs"] = batches
        lost = "; ".join(f"{count} {what}" for what, count in counts.items() if count)
        found = {"failures": lost or "none", "partial": self.partial or "no"}
        if not self.jobs:
            return found
        found[HEADLINE] = ", ".join(sorted({next(iter(job.measures)) for job in self.jobs.values()}))
        names = (f"job {name}: {policy_title(self.jobs[name])}, {self.jobs[name].dataset}" for name in self._best())
        return found | {"best": "; ".join(names)}

    def _untracked(self) -> int:
        return sum(job.mlflow_run_id is None for job in self.jobs.values())

    def _best(self) -> list[str]:
        best: dict[str, str] = {}
        for name, job in self.jobs.items():
            if job.headline > self.jobs[best.setdefault(job.dataset, name)].headline:
                best[job.dataset] = name
        return list(best.values())
