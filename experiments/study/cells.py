"""Replays the cells of a grid in parallel, and keeps each in a file, so that a killed study continues."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from experiments.config.options import results_key
from experiments.config.progress import Progress
from experiments.config.targets import require_allowed
from experiments.replay.executors import executed
from experiments.replay.inputs import InputFiles
from experiments.report.study import Cell, column_of
from experiments.study import cellreplay
from experiments.study.cellreplay import CellJob, run_replay
from experiments.study.grid import Grid
from ragtune.core.interfaces import BaseScheduler

FULL = "full"
"""Column of the cell in which the baseline reranks the whole pool."""

START = "start"
"""Column of the cell in which a policy reranks nothing, which is its order at 0 documents."""


def jobs_of(grid: Grid, folder: Path) -> list[CellJob]:
    """The jobs of all cells of a grid, full reranking first; jobs that can share a session are neighbours."""
    jobs: list[CellJob] = []
    inputs = InputFiles()

    def add(where: tuple[str, str, str], config: Mapping[str, Any], limit: float | None) -> None:
        code = inputs.code_of(config, cellreplay.__name__)
        what = [results_key(config), limit, grid.unit, list(grid.measures), code, inputs.of(config)]
        key = sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:24]
        jobs.append(CellJob(*where, config, limit, grid.unit, grid.measures, folder / f"{key}.json.gz"))

    for collection in grid.collections:
        configs = {entry.name: grid.configuration(collection, entry) for entry in grid.policies}
        whole = configs[grid.baseline.name]
        if not compares_windows(whole):
            whole = {**whole, "assembler": {**whole["assembler"], "ordering": "reranked_first"}}
        add((collection.name, grid.baseline.name, FULL), whole, None)
        for name, config in configs.items():
            add((collection.name, name, START), config, 0)
            for budget in grid.budgets:
                add((collection.name, name, column_of(budget)), config, budget)
    return jobs


def compares_windows(config: Mapping[str, Any]) -> bool:
    """Whether a policy has windows compared, again and again: a score holds within its window, and orders no pool."""
    from hydra.utils import get_class

    require_allowed(config["scheduler"], "scheduler")
    scheduler: type[BaseScheduler] = get_class(config["scheduler"]["_target_"])
    return scheduler.sends_again


def run_jobs(jobs: Sequence[CellJob], processes: int, progress: Progress) -> dict[tuple[str, str, str], Cell]:
    """Replay the jobs whose results are not kept yet, and return the cells by (collection, policy, column)."""
    files = {job.file: job for job in jobs}  # policies of the same configuration share one
    cells = {file: cell for file in files if (cell := kept_cell(file)) is not None}
    todo: dict[str, list[CellJob]] = {}
    for file, job in files.items():
        if file not in cells:
            todo.setdefault(results_key(job.config), []).append(job)
    progress(done := len(cells), len(files))
    for count in executed(run_replay, list(todo.values()), processes):
        progress(done := done + count, len(files))
    cells |= {job.file: read_cell(job.file) for some in todo.values() for job in some}
    return {(job.collection, job.policy, job.column): cells[job.file] for job in jobs}


def kept_cell(file: Path) -> Cell | None:
    """The cell that a job's file holds; None if the file is missing or damaged."""
    try:
        return read_cell(file)
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError):
        return None


def read_cell(file: Path) -> Cell:
    """Read the cell that a job's file holds."""
    cell = json.loads(gzip.decompress(file.read_bytes()))
    values, charged = (np.array(cell[key], dtype=float) for key in ("values", "charged"))
    expanded, ineligible = (np.array(cell[key], dtype=np.int64) for key in ("expanded", "ineligible"))
    return Cell(values, charged, expanded, ineligible, cell["stops"], cell["warnings"])
