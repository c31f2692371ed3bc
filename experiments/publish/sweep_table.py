"""What a sweep reports: its table, on the terminal and as CSV and Markdown, and the figures of its parent run."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from experiments.config.options import choices_of
from experiments.evaluate.baselines import FIXED_DEPTH
from experiments.evaluate.curves import area
from experiments.evaluate.significance import SIGNIFICANT, PairedDifferences, holm
from experiments.evaluate.summary import Summary
from experiments.publish.columns import read_csv, write_csv
from experiments.publish.described import allowed, markdown_table, policy_title
from experiments.publish.files import CURVE, write_text
from experiments.publish.terminal import fitting_table, short, short_p
from experiments.publish.trackstore import HEADLINE

NOTE = f"*: differs from {FIXED_DEPTH} under the same budget, p < {SIGNIFICANT} after Holm's correction for the jobs."


def print_sweep(summaries: Mapping[str, Summary], folder: Path, *, partial: str = "") -> list[Path]:
    """Print one row a job, the best headline measure first, and write the table as ``sweep.csv`` and ``sweep.md``.

    A row has the headline with its interval, and the difference from fixed depth under the same budget: with its
    interval, and the p-value of Fisher's randomization test after Holm's correction for the number of jobs. The CSV
    holds every figure in the order of the jobs. The Markdown holds the printed table with all columns.
    """
    from rich.console import Console

    files = [folder / f"sweep.{kind}" for kind in ("csv", "md")]
    if not summaries:
        for file in files:  # of the jobs that were here before
            file.unlink(missing_ok=True)
        return []
    tested = _from_fixed_depth(summaries)
    choices = _varying_choices([summary.overrides for summary in summaries.values()])
    areas, deepest = _areas(folder, summaries)
    rows = _rows(summaries, choices, tested, areas)
    if partial:
        rows = [{**row, "partial": partial} for row in rows]
    named = dict.fromkeys(name for row in rows for name in row)
    write_csv(folder / "sweep.csv", {name: [row.get(name) for row in rows] for name in named})
    headline, *others = next(iter(summaries.values())).measures
    columns = ["rank", "job", *choices[0], *_FIGURES, *(_TESTED if tested else ()), *others, "AUCC"]
    shown = [_shown(row, headline, columns) for row in sorted(rows, key=lambda row: int(row["rank"]))]
    names = {"headline": headline, "vs": f"vs {FIXED_DEPTH}"}
    short_names = Counter([*columns, *(option.rpartition(".")[2] for option in choices[0] if "." in option)])
    options = {option: name if short_names[name := option.rpartition(".")[2]] == 1 else option for option in choices[0]}
    heads = [{**names, **options}.get(column, column) for column in columns]
    notes = {"job": f"partial: {partial} finished, then the sweep was interrupted"} if partial else {}
    notes |= {names["vs"]: NOTE} if tested else {}
    notes |= {"AUCC": f"AUCC: mean {headline} from 0 to {deepest} documents a query"} if areas else {}
    console = Console(highlight=False, emoji=False)
    left = list(options.values())
    counted = f"{len(shown)} run{'s' * (len(shown) != 1)}"
    always = ("rank", "job", *left, headline)
    printed = [dict(zip(heads, cells, strict=True)) for cells in shown]
    for option in left:
        for row, value in zip(printed, _told_apart([row[option] for row in printed]), strict=True):
            row[option] = value
    cells = [list(row.values()) for row in printed]
    table, left_out = fitting_table(heads, cells, left=left, width=console.width, title=counted, always=always)
    console.print(table)
    for column, note in notes.items():
        if column not in left_out:
            console.print(note)
    if left_out:
        console.print(f"no room for {', '.join(left_out)}: sweep.md and sweep.csv have all columns")
    markdown = "\n\n".join([markdown_table(heads, shown), *(notes.values() or [""])])
    write_text(folder / "sweep.md", f"{markdown}\n")
    return files


_FIGURES = ("headline", "95% interval", "docs")
_TESTED = ("vs", "interval of it", "p (Holm)")


def _areas(folder: Path, summaries: Mapping[str, Summary]) -> tuple[dict[str, float], int]:
    """The area under each job's curve of the headline, and the documents to which all of them go.

    That is as far as the deepest job went; another one stays where it ended.
    """
    headline = next(iter(next(iter(summaries.values())).measures))
    tables = {job: read_csv(file) for job in summaries if (file := folder / job / CURVE).is_file()}
    lines = {
        job: (np.array(table["documents"], dtype=float), np.array(table[headline], dtype=float))
        for job, table in tables.items()
        if headline in table
    }
    deepest = max((docs[-1] for docs, _ in lines.values()), default=0.0)
    return {job: area(*line, 0.0, deepest, stepwise=True) for job, line in lines.items()}, int(deepest)


def _from_fixed_depth(summaries: Mapping[str, Summary]) -> dict[str, PairedDifferences]:
    found = {}
    for job, summary in summaries.items():
        if comparison := (summary.baselines or {}).get(FIXED_DEPTH):
            headline = next(iter(summary.measures))
            figures = (comparison.difference[headline], *comparison.interval[headline], comparison.p[headline])
            found[job] = PairedDifferences(*(np.array([figure]) for figure in figures))
    return found


def _rows(
    summaries: Mapping[str, Summary],
    choices: Sequence[Mapping[str, str]],
    tested: Mapping[str, PairedDifferences],
    areas: Mapping[str, float],
) -> list[dict[str, Any]]:
    headline = next(iter(next(iter(summaries.values())).measures))
    corrected = dict(zip(tested, holm([found.p[0] for found in tested.values()]).tolist(), strict=True))
    best = sorted((summary.measures[headline] for summary in summaries.values()), reverse=True)
    rows = []
    for (job, summary), choice in zip(summaries.items(), choices, strict=True):
        low, high = summary.interval.get(headline, (None, None))
        row: dict[str, Any] = {"rank": best.index(summary.measures[headline]) + 1, "job": job, **choice}
        row |= {**summary.measures, f"{headline}_low": low, f"{headline}_high": high, "AUCC": areas.get(job, "")}
        row["docs"] = summary.cost_per_query.charged["docs"]
        if found := tested.get(job):
            row |= {"diff": found.mean[0], "diff_low": found.low[0], "diff_high": found.high[0]}
            row |= {"p": found.p[0], "p_holm": corrected[job]}
        rows.append({**row, "mlflow_run_id": summary.mlflow_run_id})
    return rows


def _shown(row: Mapping[str, Any], headline: str, columns: Sequence[str]) -> list[str]:
    cells = dict(row)
    cells["headline"] = row[headline]
    cells["95% interval"] = "-".join(short(row[f"{headline}_{end}"], ".3f") for end in ("low", "high"))
    cells["docs"] = f"{row['docs']:.1f}"
    cells |= dict.fromkeys(_TESTED, "")
    if "diff" in row:
        cells["vs"] = short(row["diff"], "+.3f") + _mark(row)
        cells["interval of it"] = " ".join(short(row[f"diff_{end}"], "+.3f") for end in ("low", "high"))
        cells["p (Holm)"] = short_p(row["p_holm"])
    return [_cell(cells[column]) for column in columns]


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return short(value, ".3f")
    # What a sampler has proposed has as many digits as a float can.
    return f"{float(value):.4g}" if re.fullmatch(r"-?\d+\.\d{4,}(e-?\d+)?", str(value)) else str(value)


_LONG = 20
"""Characters from which the values of an option are shortened."""


def _told_apart(values: Sequence[str]) -> list[str]:
    """The values of an option, long ones without the folders with which all begin, and with which all end."""
    given = [value for value in values if value]
    for from_end in (False, True):
        if len(set(given)) > 1 and max(map(len, given)) > _LONG:
            given = [value[::-1] for value in given] if from_end else given
            shared = os.path.commonprefix(given).rfind("/")  # noqa: RUF071 - characters are meant, not parts of a path
            given = [f"…{value[shared:]}" for value in given] if shared > 0 else given
            given = [value[::-1] for value in given] if from_end else given
    shortened = iter(given)
    return [next(shortened) if value else value for value in values]


def _mark(row: Mapping[str, Any]) -> str:
    return "" if row["p_holm"] >= SIGNIFICANT else "*"


def _varying_choices(overrides: Sequence[Sequence[str]]) -> list[dict[str, str]]:
    """Each job's overrides, by key, as far as they differ between jobs (all of a single job's)."""
    given = list(map(choices_of, overrides))
    keys = list(dict.fromkeys(key for choice in given for key in choice))
    varying = [key for key in keys if len({choice.get(key) for choice in given}) > 1 or len(given) == 1]
    return [{key: choice.get(key, "") for key in varying} for choice in given]


@dataclass(frozen=True)
class SweepFigures:
    """The jobs of a sweep as its parent run counts them.

    Attributes:
        jobs: summaries of the finished jobs, by the name of the job.
        failed: number of failed jobs.
        planned: number of planned jobs; 0 where a sampler decides as it goes.
        partial: what an interrupted sweep has finished, in words; empty if it ran to its end.
    """

    jobs: Mapping[str, Summary] = field(default_factory=dict)
    failed: int = 0
    planned: int = 0
    partial: str = ""

    def metrics(self) -> dict[str, float]:
        """The best job's measures and documents, of each collection if there are several, and the counts of jobs."""
        found: dict[str, float] = {}
        best = dict(self._best())
        for _, job in best.values():
            where = f"{allowed(job.dataset)}/" if len(best) > 1 else ""
            found |= {f"{where}{allowed(name)}": value for name, value in job.measures.items()}
            found[f"{where}{HEADLINE}"] = job.headline
            found[f"{where}charged_docs"] = job.cost_per_query.charged["docs"]
            found[f"{where}failed_batches"] = float(job.failures.batches_failed)
        found |= {"jobs_finished": float(len(self.jobs)), "jobs_failed": float(self.failed)}
        if self.planned:
            found["jobs_planned"] = float(self.planned)
        found["jobs_untracked"] = float(sum(job.mlflow_run_id is None for job in self.jobs.values()))
        return found

    def tags(self) -> dict[str, str]:
        """The best job by name, the failures, and whether the table is partial."""
        lost = [f"{self.failed} jobs failed"] if self.failed else []
        untracked = sum(job.mlflow_run_id is None for job in self.jobs.values())
        lost += [f"{untracked} jobs not tracked"] if untracked else []
        batches = sum(job.failures.batches_failed for job in self.jobs.values())
        lost += [f"{batches} batches failed in finished jobs"] if batches else []
        best = "; ".join(f"job {name}: {policy_title(job)}, {job.dataset}" for name, job in dict(self._best()).values())
        found = {"failures": "; ".join(lost) or "none", "partial": self.partial or "no"}
        measures = {next(iter(job.measures)) for job in self.jobs.values()}
        found |= {HEADLINE: ", ".join(sorted(measures))} if measures else {}
        return found | ({"best": best} if best else {})

    def _best(self) -> Iterator[tuple[str, tuple[str, Summary]]]:
        """The first of the jobs with the highest headline, by collection."""
        for dataset in dict.fromkeys(job.dataset for job in self.jobs.values()):
            there = [(name, job) for name, job in self.jobs.items() if job.dataset == dataset]
            yield dataset, max(there, key=lambda named: named[1].headline)
