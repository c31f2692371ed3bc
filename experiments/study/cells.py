"""Replays the cells of a grid in parallel, and keeps each in a file, so that a killed study continues."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from experiments.config.compose import results_key
from experiments.config.paths import PROJECT_ROOT
from experiments.config.progress import Progress
from experiments.config.targets import require_allowed
from experiments.config.whole import whole
from experiments.evaluate.measures import Measures
from experiments.evaluate.record import UNITS, QueryRecord
from experiments.replay.fixed_order import has_fixed_order
from experiments.replay.inputs import InputFiles
from experiments.replay.sessions import session_for
from experiments.replay.shard import ShardReplay, in_shards
from experiments.study.decisions import INELIGIBLE, decisions_of
from experiments.study.grid import Grid
from experiments.study.processes import executed
from experiments.study.study import Cell, column_of
from ragtune.core.errors import ConfigError, FailedRunError, InputError
from ragtune.core.interfaces import BaseScheduler
from ragtune.core.output import ControllerOutput
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.limits import LIMITS
from ragtune.core.request.request import Request
from ragtune.core.types import GIVEN_UP

FULL = "full"
"""Column of the cell in which the incumbent reranks the whole pool."""

START = "start"
"""Column of the cell in which the incumbent reranks nothing, which is its order at 0 documents."""


@dataclass(frozen=True)
class Job:
    """The replay of a collection through one policy under one hard budget.

    Attributes:
        collection, policy, column: names of the cell; the column is the budget as text, or :data:`FULL`.
        config: resolved configuration without a limit.
        limit: how much of the unit each query may spend; None for no limit.
        unit: what is limited, by its short name.
        measures: what is measured.
        traced: whether to keep the decisions.
        file: file of the result.
    """

    collection: str
    policy: str
    column: str
    config: Mapping[str, Any]
    limit: float | None
    unit: str
    measures: Sequence[str]
    traced: bool
    file: Path


def jobs_of(grid: Grid, folder: Path) -> list[Job]:
    """The jobs of all cells of a grid.

    The full reranking of each collection comes first, and jobs that can share a session are neighbours.

    Args:
        grid: what is compared.
        folder: folder of the files of cells.

    Raises:
        ConfigError: naming the policy and collection whose configuration is wrong.
    """
    jobs = []
    inputs = InputFiles()
    for collection in grid.collections:
        configs = {entry.name: grid.configuration(collection, entry) for entry in grid.policies}
        fixed = configs[grid.incumbent.name]
        whole = fixed
        if not compares_windows(fixed):
            whole = {**fixed, "assembler": {**fixed["assembler"], "ordering": "reranked_first"}}
        for column, config, limit in ((FULL, whole, None), (START, fixed, 0)):
            where = (collection.name, grid.incumbent.name, column)
            jobs.append(_job(where, config, limit, grid, False, folder, inputs))
        for entry in grid.policies:
            config = configs[entry.name]
            for budget in grid.budgets:
                traced = entry.name in grid.traces.policies and budget == grid.traces.budget
                where = (collection.name, entry.name, column_of(budget))
                jobs.append(_job(where, config, budget, grid, traced, folder, inputs))
    return jobs


def compares_windows(config: Mapping[str, Any]) -> bool:
    """Whether a policy has windows compared, again and again: a score holds within its window, and orders no pool."""
    from hydra.utils import get_class

    require_allowed(config["scheduler"], "scheduler")
    scheduler: type[BaseScheduler] = get_class(config["scheduler"]["_target_"])
    return scheduler.sends_again


def _job(
    where: tuple[str, str, str],
    config: Mapping[str, Any],
    limit: float | None,
    grid: Grid,
    traced: bool,
    folder: Path,
    inputs: InputFiles,
) -> Job:
    files = inputs.of(config) | inputs.code_of(config)
    what = [results_key(config), limit, grid.unit, list(grid.measures), traced, code_digest(), files]
    key = sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:24]
    return Job(*where, config, limit, grid.unit, grid.measures, traced, folder / f"{key}.json.gz")


def run_jobs(jobs: Sequence[Job], processes: int, progress: Progress) -> dict[tuple[str, str, str], Cell]:
    """Replay the jobs whose results are not kept yet; those that differ by the budget alone share a replay.

    Args:
        jobs: all of the study.
        processes: number of worker processes; -1 for one a core.
        progress: called with the number of cells done.

    Returns:
        The cells by (collection, policy, column).
    """
    files = {job.file: job for job in jobs}  # policies of the same configuration share one
    cells = {file: cell for file in files if (cell := kept_cell(file)) is not None}
    todo = [job for file, job in files.items() if file not in cells]
    progress(done := len(cells), len(files))
    for count in executed(run_replay, _replays(todo), processes):
        progress(done := done + count, len(files))
    cells |= {job.file: read_cell(job.file) for job in todo}
    return {(job.collection, job.policy, job.column): cells[job.file] for job in jobs}


def _replays(jobs: Sequence[Job]) -> list[list[Job]]:
    """The jobs in groups that differ by their limits alone."""
    groups: dict[str, list[Job]] = {}
    for job in jobs:
        groups.setdefault(results_key(job.config), []).append(job)
    return list(groups.values())


def run_replay(jobs: Sequence[Job]) -> int:
    """Replay cells that differ by their limits alone, and write their files, each of which is whole or missing.

    Returns:
        The number of cells.

    Raises:
        ConfigError: naming the policy and the collection, on anything unusable.
        FailedRunError: likewise, where more queries were given up than ``failures.max_share`` allows.
    """
    try:
        for job, cell in zip(jobs, _replayed(jobs), strict=True):
            _write_cell(job.file, job.column, cell)
    except (InputError, FailedRunError) as error:
        job = jobs[0]
        kind = FailedRunError if isinstance(error, FailedRunError) else ConfigError
        raise kind(f"policy {job.policy!r} on collection {job.collection!r}: {error}") from error
    return len(jobs)


def _replayed(jobs: Sequence[Job]) -> list[dict[str, Any]]:
    config = jobs[0].config
    session = session_for(results_key(config))
    limits = {key: value for key, value in config["budget"].items() if key != "_target_"}
    budgets = [CostBudget(**{**limits, LIMITS[job.unit]: job.limit}) for job in jobs]
    queries = session.dataset.queries
    measures = Measures(jobs[0].measures, session.dataset.qrels)
    if not any(job.traced for job in jobs) and all(has_fixed_order(session, budget) for budget in budgets):
        shards = (ShardReplay(session, some) for some in in_shards(session, session.dataset.judged))
        answered = (zip(*(shard.under(b, traced=False) for b in budgets), strict=True) for shard in shards)
        rows = [list(map(_recorded, records)) for answers in answered for records in answers]
    else:
        requests = (Request(queries[query_id], query_id) for query_id in session.dataset.judged)
        answers = (zip(jobs, session.controller.run_under(request, budgets), strict=True) for request in requests)
        rows = [[_row(output, measures, job) for job, output in answer] for answer in answers]
    _refuse_failures(rows, config["failures"]["max_share"])
    found = [_cell(session.dataset.judged, column, measures) for column in zip(*rows, strict=True)]
    gaps = {join.gap: join.missing for join in session.dataset.joins if join.missing}
    return [{**cell, "warnings": gaps} for cell in found]


def _refuse_failures(rows: Sequence[Sequence[Mapping[str, Any]]], max_share: float) -> None:
    """Raise if under a budget more queries were given up than is allowed: what they rank says nothing of the policy.

    Raises:
        FailedRunError: with the first error.
    """
    for column in zip(*rows, strict=True):
        failed = [row for row in column if row["stops"] in GIVEN_UP]
        if len(failed) > max_share * len(column):
            said = f"{len(failed)} of {len(column)} queries given up; first error: {failed[0]['error']}"
            raise FailedRunError(said)


def _recorded(record: QueryRecord) -> dict[str, Any]:
    docs, calls, *recorded = record.charged
    row = {"ranking": record.ranking, "docs": docs, "calls": calls, "recorded": recorded, "expanded": 0}
    stop = record.stop
    return row | {"ineligible": 0, "stops": stop["reason"], "error": stop["details"].get("error"), "decisions": None}


def _row(output: ControllerOutput, measures: Measures, job: Job) -> dict[str, Any]:
    cost = output.history[-1].cost
    return {
        "ranking": output.ranking,
        "docs": cost.docs,
        "calls": cost.calls,
        "expanded": output.final_budget_state["expanded_docs"],
        "ineligible": _ineligible(output),
        "stops": output.stop.reason,
        "error": output.stop.details.get("error"),
        "recorded": [getattr(cost, unit) for unit in UNITS[2:]],
        "decisions": decisions_of(output, _quality(output, measures)) if job.traced else None,
    }


def _cell(judged: Sequence[str], rows: Sequence[Mapping[str, Any]], measures: Measures) -> dict[str, Any]:
    by_query = dict(zip(judged, rows, strict=True))
    values = measures.of_topics({q: row["ranking"] for q, row in by_query.items()}, {q: q for q in judged})
    columns = ("docs", "calls", "expanded", "ineligible", "stops", "recorded")
    return {
        "values": values.tolist(),
        **{name: [row[name] for row in rows] for name in columns},
        "decisions": {q: row["decisions"] for q, row in by_query.items() if row["decisions"] is not None},
    }


def _ineligible(output: ControllerOutput) -> int:
    return sum(event.details["count"] for event in output.trace.find(INELIGIBLE))


def _write_cell(file: Path, column: str, cell: Mapping[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with whole(file, f".{column}") as beside:
        beside.write_bytes(gzip.compress(json.dumps(cell).encode(), compresslevel=5, mtime=0))


def _quality(output: ControllerOutput, measures: Measures) -> list[float]:
    """The headline measure before anything was reranked and after each batch."""
    rankings = {str(i): list(step.ranking) for i, step in enumerate(output.history)}
    return [
        round(float(value), 6) for value in measures.of_topics(rankings, dict.fromkeys(rankings, output.query_id))[:, 0]
    ]


def kept_cell(file: Path) -> Cell | None:
    """The cell that a job's file holds; None if the file is missing or damaged."""
    try:
        return read_cell(file)
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError):
        return None


def read_cell(file: Path) -> Cell:
    """Read the cell that a job's file holds."""
    cell = json.loads(gzip.decompress(file.read_bytes()))
    counts: dict[str, Any] = {
        key: np.array(cell[key], dtype=np.int64) for key in ("docs", "calls", "expanded", "ineligible")
    }
    values, recorded = (np.array(cell[key], dtype=float) for key in ("values", "recorded"))
    said: dict[str, Any] = {key: cell[key] for key in ("stops", "decisions", "warnings")}
    return Cell(values=values, recorded=recorded, **counts, **said)


_PRESENTATION = {"figures.py", "palette.py", "tables.py", "report.py", "markdown.py", "statistics.py", "terminal.py"}
_PRESENTATION |= {"recommendation.py", "overview.py", "redraw.py", "write.py", "grid_file.py", "protocol", "commands"}
"""Files and folders of code that only says what the cells hold."""


@lru_cache(maxsize=1)
def code_digest() -> str:
    """SHA-256 of all code that decides what a cell holds, which is all but the presentation."""
    import numpy
    import scipy

    sha = sha256(f"{numpy.__version__} {scipy.__version__}".encode())
    for root in ("ragtune", "experiments"):
        for file in sorted((PROJECT_ROOT / root).rglob("*.py")):
            if file.name not in _PRESENTATION and file.parent.name not in _PRESENTATION:
                sha.update(file.relative_to(PROJECT_ROOT).as_posix().encode() + b"\0" + file.read_bytes())
    return sha.hexdigest()
