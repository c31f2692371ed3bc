"""Replays policies over the tracks of the board, and writes their records. The same inputs give the same bytes."""

from __future__ import annotations

import ast
import json
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from hashlib import sha256
from importlib.metadata import EntryPoint, entry_points, version
from pathlib import Path
from typing import Any

import numpy as np

import ragtune
from experiments.config.progress import Progress
from experiments.config.sources import Sources
from experiments.evaluate.curves import area
from experiments.evaluate.measures import Measures
from experiments.evaluate.record import UNITS
from experiments.leaderboard.outside import Track, play
from experiments.publish.files import write_text
from experiments.replay.build import session_for
from experiments.replay.inputs import InputFiles, code_files, targets_of
from experiments.report.study import column_of
from experiments.study import cellreplay
from experiments.study.cells import FULL, START, jobs_of, run_jobs
from experiments.study.grid import Grid, load_grid
from ragtune.core.arguments import did_you_mean
from ragtune.core.arrays import FloatArray
from ragtune.core.errors import ConfigError
from ragtune.core.request.budget import CostBudget
from ragtune.data.caches.diskcache import sha256_of

REFERENCE = "fixed_depth"
"""The policy that the others are tested against."""

GROUP = "ragtune.policies"
"""Entry points by which an installed package offers policies."""

CPU_DOCS, CPU_QUERIES = 20, 20
"""A policy's work is measured under this budget, in so many queries of the first collection."""


DEMO = "collections=[{name: demo, overrides: [dataset=demo, 'reranker=${reranker}', budget.assembly_token_buffer=0]}]"

WINDOWS = {"docs": None, "calls": 20, "tokens": None}
"""Tracks, and the most documents of a call, whose scores then hold in that call only."""

Figures = dict[str, dict[tuple[str, str], tuple[FloatArray, FloatArray]]]
"""By unit, then collection and budget: the measure of each query, shape (q,), and its charges, shape (q, units)."""


class Recorder:
    """Writes records of policies into a folder, whose ``cells/`` keeps the finished cells of presets.

    ``data`` is a folder of collections, or None for the shipped one; ``options`` change the files of ``conf/frontier``.
    """

    def __init__(self, folder: Path, data: str | None, options: Sequence[str], date: str | None) -> None:
        self._folder, self._date, self._inputs = folder, date, InputFiles()
        self._grids = {unit: _grid(unit, data, options) for unit in WINDOWS}
        self._first = first = self._grids["docs"]
        self.presets = {entry.name: entry for entry in first.policies}
        self._about: dict[str, dict[str, str]] = {}
        folders = {folder}
        for each in first.collections:
            config = first.configuration(each, first.baseline)
            files = self._inputs.of(config)
            folders |= {Path(config["dataset"]["path"]), *(Path(file).parent for file in files)}
            about = {"family": first.family_of(each), "group": each.group or each.name}
            self._about[each.name] = {**about, "inputs": _digest([*sorted(files.values()), first.queries])}
        self._closed = sorted(str(path.resolve()) for path in folders)

    def write(self, names: Sequence[str], progress: Progress) -> Iterator[Path]:
        """Replay policies, and yield the files of their records; ``NAME.cpu.json`` has the time of their own work."""
        installed = {entry.name: entry for entry in entry_points(group=GROUP)}
        for name in names:
            if name not in {**self.presets, **installed}:
                known = [*self.presets, *installed]
                raise ConfigError(f"no policy {name!r}: allowed are {', '.join(known)}{did_you_mean(name, known)}")
            if name in self.presets:  # a package that it needs is missing before anything is replayed, not after
                session_for(self._first.configuration(self._first.collections[0], self.presets[name]))
        for name, figures in self._replayed([name for name in names if name in self.presets], progress).items():
            entry = self.presets[name]
            config = self._first.configuration(self._first.collections[0], entry)
            about = {"package": "ragtune", "version": ragtune.__version__, "label": entry.policy.label}
            modules = [cellreplay.__name__, area.__module__, *targets_of(config)]
            settings = [config[group] for group in ("estimator", "scheduler", "assembler")]
            code = [[name, _statements(file)] for name, file in Sources().files(modules).items()]
            about |= {"kind": entry.kind, "code": _digest([_digest(code), *settings])}
            yield self._written(name, about, figures, _cpu_ms(config))
        for name in names:
            if name not in self.presets:
                yield self._written(name, _about(installed[name]), *self._played(installed[name], progress))

    def _replayed(self, names: Sequence[str], progress: Progress) -> dict[str, Figures]:
        found: dict[str, Figures] = {name: {} for name in names}
        for unit, grid in self._grids.items():
            if own := [entry.name for entry in grid.policies if entry.name in names]:
                jobs = [job for job in jobs_of(grid.only((), own), self._folder / "cells") if job.policy in own]
                jobs = [job for job in jobs if job.column not in (FULL, START)]
                for (collection, name, column), cell in run_jobs(jobs, grid.jobs, progress).items():
                    found[name].setdefault(unit, {})[collection, column] = cell.values[:, 0], cell.charged
        return found

    def _played(self, entry: EntryPoint, progress: Progress) -> tuple[Figures, float]:
        """Figures of an outside policy, and the milliseconds of its own work for a request."""
        found: Figures = {unit: {} for unit in self._grids}
        cpu: list[float] = []
        for unit, grid in self._grids.items():
            for collection in grid.collections:
                config = grid.configuration(collection, grid.baseline)
                session = session_for(config)
                judged, depth = session.dataset.judged, config["retrieval"]["original_query_depth"]
                measures = Measures(grid.measures, session.dataset.qrels)
                for budget in grid.budgets:
                    answers = play(entry, Track(session, depth, grid.limited, budget, WINDOWS[unit]), self._closed)
                    rankings = {query: answer.ranking for query, answer in zip(judged, answers, strict=True)}
                    values = measures.of_topics(rankings, {query: query for query in judged})[:, 0]
                    charged = np.array([answer.charged for answer in answers])
                    found[unit][collection.name, column_of(budget)] = values, charged
                    if not cpu and budget == CPU_DOCS:
                        cpu = [answer.cpu_ms for answer in answers[:CPU_QUERIES]]
                    progress(len(found[unit]), len(grid.collections) * len(grid.budgets))
        return found, float(np.median(cpu))

    def _written(self, name: str, about: Mapping[str, Any], found: Figures, cpu_ms: float) -> Path:
        rows = {
            collection: {**own, "units": {unit: _curve(self._grids[unit], collection, found[unit]) for unit in found}}
            for collection, own in self._about.items()
        }
        versions = {"python": platform.python_version(), **{each: version(each) for each in ("numpy", "ir-measures")}}
        record = {"policy": name, **about, "date": self._date, "versions": versions, "collections": rows}
        tracks = [[unit, grid.budgets, WINDOWS[unit]] for unit, grid in self._grids.items()]
        record["protocol"] = {"measure": self._first.measures[0], "seed": self._first.seed, "tracks": tracks}
        file = self._folder / f"{name}.json"
        self._folder.mkdir(parents=True, exist_ok=True)
        write_text(file, json.dumps(record, sort_keys=True, separators=(",", ":")) + "\n")
        write_text(file.with_suffix(".cpu.json"), json.dumps({"cpu_ms": round(cpu_ms, 2)}) + "\n")
        return file


def _grid(unit: str, data: str | None, options: Sequence[str]) -> Grid:
    """A track: the collections of a folder, or the shipped one."""
    grid = load_grid(f"leaderboard_{unit}", [*options, *([f"data={data}"] if data else ["data=", DEMO])])
    there = [entry for entry in grid.collections if not data or Path(data, entry.group).is_dir()]
    if not there:
        known = ", ".join(dict.fromkeys(entry.group for entry in grid.collections))
        raise ConfigError(f"--data {data}: allowed is a folder with one of {known}")
    return replace(grid, collections=there)


def _about(entry: EntryPoint) -> dict[str, Any]:
    files = sorted(code_files(entry.module.partition(".")[0]))
    about = {"package": entry.dist and entry.dist.name, "version": entry.dist and entry.dist.version}
    label = f"{entry.name} ({about['package']})"  # no preset's
    return {**about, "label": label, "kind": "outside", "code": _digest([sha256_of(file) for file in files])}


@cache  # policies share most files
def _statements(file: Path) -> str:
    """A digest of a module without comments and docstrings."""
    tree = ast.parse(file.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            is_text = [isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) for each in node.body]
            node.body = [each for each, skip in zip(node.body, is_text, strict=True) if not skip]
    return _digest([ast.dump(tree)])


def _cpu_ms(config: Mapping[str, Any]) -> float:
    session, spent = session_for(config), []
    for query_id in session.dataset.judged[:CPU_QUERIES]:
        begun = time.process_time()
        budget = CostBudget.only(max_reranker_docs=CPU_DOCS)
        session.controller.run(session.dataset.queries[query_id], budget, query_id=query_id)
        spent.append((time.process_time() - begun) * 1000)
    return float(np.median(spent))


def _curve(grid: Grid, collection: str, found: Mapping[tuple[str, str], tuple[FloatArray, FloatArray]]) -> Any:
    """Means by budget, and the area under each query's quality against the mean cost, in ten-thousandths."""
    values, charged = zip(*(found[collection, column_of(budget)] for budget in grid.budgets), strict=True)
    spent = [float(each[:, UNITS.index(grid.unit)].mean()) for each in charged]
    low, high = np.log2(grid.budgets[0]), np.log2(grid.budgets[-1])
    cost = np.log2(np.maximum.accumulate([1e-9, *spent])[1:])
    return {
        "mean": [round(float(each.mean()), 6) for each in values],
        "spent": [round(amount, 3) for amount in spent],
        "area": [round(10_000 * area(cost, own, low, high, stepwise=False)) for own in np.stack(values, axis=1)],
    }


def _digest(texts: Sequence[Any]) -> str:
    return sha256(json.dumps(list(texts)).encode()).hexdigest()
