"""Replays the cells of a grid in parallel, each kept in a file, so that a killed study continues; writes the study."""

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
from experiments.evaluate.curves import Steps, curve
from experiments.evaluate.measures import Measures
from experiments.evaluate.record import UNITS
from experiments.evaluate.significance import Bootstrap
from experiments.publish.described import git_sha
from experiments.publish.folders import require_writable
from experiments.replay.build import load_dataset, session_for
from experiments.replay.executors import executed
from experiments.replay.inputs import InputFiles
from experiments.replay.records import is_fixed_depth, records_of
from experiments.report.report import write_study
from experiments.report.study import Cell, Line, Study, StudyCollection, column_of
from experiments.study import cellreplay
from experiments.study.cellreplay import CellJob, run_replay
from experiments.study.grid import CollectionEntry, Grid, PolicyEntry
from ragtune.core.errors import ConfigError
from ragtune.core.interfaces import BaseScheduler
from ragtune.core.units import DOCS

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
    return Cell(values, charged, cell["stops"], cell["warnings"])


Cells = Mapping[tuple[str, str, str], Cell]


def run_frontier(grid: Grid, folder: Path, command: str, progress: Progress) -> Study:
    """Replay the cells that are missing below ``folder/cells``, and write tables and report."""
    require_writable(folder)
    cells = run_jobs(jobs_of(grid, folder / "cells"), grid.jobs, progress)
    study = study_of(grid, cells, command)
    write_study(study, folder, report=grid.report)
    return study


def study_of(grid: Grid, cells: Cells, command: str) -> Study:
    """Make a study of the finished cells of a grid."""
    baseline = grid.configuration(grid.collections[0], grid.baseline)
    full = {entry.name: cells[entry.name, grid.baseline.name, FULL] for entry in grid.collections}
    return Study(
        name=grid.name,
        question=grid.question,
        command=command,
        git_sha=git_sha(),
        collections=[_collection(grid, entry, cells) for entry in grid.collections],
        policies=[entry.policy for entry in grid.policies],
        reference=grid.baseline.name,
        columns=[column_of(budget) for budget in grid.budgets],
        measures=list(grid.measures),
        target_label=f"the baseline without a limit{'' if compares_windows(baseline) else ', reranked_first order'}",
        resamples=grid.resamples,
        permutations=grid.permutations,
        level=grid.level,
        seed=grid.seed,
        notes=[f"warning: {name}: {n} {what}" for name, cell in full.items() for what, n in cell.warnings.items()],
        claims=grid.claims,
        choice=grid.choice,
        unit=grid.limited,
    )


def _collection(grid: Grid, entry: CollectionEntry, cells: Cells) -> StudyCollection:
    dataset = load_dataset(grid.configuration(entry, grid.baseline))
    mine = {(policy, column): cell for (name, policy, column), cell in cells.items() if name == entry.name}
    full = mine.pop((grid.baseline.name, FULL))
    starts = {policy.name: mine.pop((policy.name, START)) for policy in grid.policies}
    return StudyCollection(
        name=entry.name,
        queries=dataset.judged,
        cells=mine,
        curves={policy.name: _curve(grid, entry, policy, starts[policy.name], mine) for policy in grid.policies},
        target=full.values.mean(axis=0),
        target_spent=_spent(grid, entry, full),
        start=starts[grid.baseline.name].values.mean(axis=0),
        dataset=dataset.name,
        group=entry.group or entry.name,
        family=grid.family_of(entry),
        plain=entry.plain,
    )


def _spent(grid: Grid, entry: CollectionEntry, full: Cell) -> float:
    spent = float(full.in_unit(grid.limited).mean())
    if not spent:
        raise ConfigError(
            f"unit={grid.unit}: nothing is charged in it on {entry.name!r}, so that no budget binds: allowed is a unit "
            "that the reranker counts or has a price for"
        )
    return spent


def _curve(
    grid: Grid, entry: CollectionEntry, policy: PolicyEntry, start: Cell, cells: Mapping[tuple[str, str], Cell]
) -> Line:
    """From 0 to the largest budget: fixed depth at every depth, any other policy at the budgets that were replayed."""
    config = grid.configuration(entry, policy)
    is_one_shot = config["scheduler"]["_target_"].endswith(".OneShotScheduler")  # few are worth building their parts
    if grid.limited is DOCS and is_one_shot and is_fixed_depth(session_for(config)):
        bootstrap = Bootstrap(resamples=grid.resamples, level=grid.level, seed=grid.seed)
        return _at_every_depth(config, int(grid.budgets[-1]), grid.measures, bootstrap)
    at_budgets = [cells[policy.name, column_of(budget)] for budget in grid.budgets]
    return _line(grid, [0, *grid.budgets], [start, *at_budgets])


def _line(grid: Grid, allowed: Sequence[float], cells: Sequence[Cell]) -> Line:
    values = np.stack([cell.values for cell in cells], axis=1)
    low, high = Bootstrap(grid.resamples, grid.level, grid.seed).interval(values)
    costs = np.array([cell.charged.mean(axis=0) for cell in cells])
    spent = costs[:, UNITS.index(grid.limited.name)]
    return Line(np.array(allowed, dtype=float), spent, values.mean(axis=0), low, high, costs)


def _at_every_depth(config: Mapping[str, Any], deepest: int, measures: Sequence[str], bootstrap: Bootstrap) -> Line:
    session = session_for({**config, "budget": {**config["budget"], DOCS.limit: deepest}})
    measured = Measures(measures, session.dataset.qrels)
    records = list(records_of(session, session.dataset.judged, traced=False))
    drawn = curve(Steps.of(records, measured, fixed_depth=True), measured.names, bootstrap)
    return Line(drawn.docs.astype(float), drawn.costs[:, 0], drawn.mean, drawn.low, drawn.high, drawn.costs, steps=True)
