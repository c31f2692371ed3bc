"""Replays a policy over the tracks of the board, and writes its record. The same inputs give the same bytes."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from importlib.metadata import EntryPoint, entry_points, version
from pathlib import Path
from typing import Any

import numpy as np

import ragtune
from experiments.config.progress import Progress
from experiments.evaluate.curves import area
from experiments.evaluate.measures import Measures
from experiments.evaluate.record import UNITS
from experiments.leaderboard.outside import Table, play
from experiments.leaderboard.tracks import TRACKS, Track, grid_of
from experiments.publish.files import write_text
from experiments.replay.build import load_dataset, session_for
from experiments.replay.inputs import InputFiles, code_files
from experiments.report.study import Cell, column_of
from experiments.study import cellreplay
from experiments.study.cells import FULL, START, jobs_of, run_jobs
from experiments.study.grid import CollectionEntry, Grid, PolicyEntry
from ragtune.core.arguments import did_you_mean
from ragtune.core.errors import ConfigError
from ragtune.core.request.budget import CostBudget
from ragtune.core.units import DOCS
from ragtune.data.caches.diskcache import file_digests

GROUP = "ragtune.policies"
"""Entry points by which an installed package offers policies."""

CPU_DOCS, CPU_QUERIES = 20, 20
"""Where the work of a policy is measured: under a budget of so many documents, in queries of the first collection."""

Cells = Mapping[tuple[str, str], Cell]
"""By collection and column."""


class Recorder:
    """Makes records of policies by name, in a folder.

    Args:
        folder: of the records; finished cells of presets are kept in its ``cells/``.
        data: folder of collections; None for the shipped collection.
        options: changes to ``conf/frontier/leaderboard.yaml``.
        date: goes into the records as it is.
    """

    def __init__(self, folder: Path, data: str | None, options: Sequence[str], date: str | None) -> None:
        self._folder, self._date = folder, date
        self._grids = {track: grid_of(track, data, options) for track in TRACKS}
        self._inputs = InputFiles()
        self._cells: dict[Track, Mapping[tuple[str, str, str], Cell]] = {}
        self._known: dict[str, dict[str, Any]] = {}

    @property
    def presets(self) -> list[str]:
        """The policies of the configuration."""
        return [entry.name for entry in self._first.policies]

    def write(self, names: Sequence[str], progress: Progress) -> Iterator[Path]:
        """Replay policies where they have no finished cells, and yield the files of their records as they are written.

        A record is ``NAME.json``; how long the policy's own work took is beside it, in ``NAME.cpu.json``.
        """
        presets = {entry.name: entry for entry in self._first.policies if entry.name in names}
        installed = {name: self._installed(name) for name in names if name not in presets}
        for track, grid in self._grids.items():
            if own := [entry.name for entry in grid.policies if entry.name in presets]:
                self._cells[track] = self._replayed(grid.only((), own), progress)
        for name, entry in presets.items():
            yield self._written(name, self._about_preset(entry), self._cells_of(name), self._cpu_ms(entry))
        for name, outside in installed.items():
            played = {track: self._played(outside, track, grid, progress) for track, grid in self._grids.items()}
            cpu = [ms for _, each in played.values() for ms in each]
            cells = {track: found for track, (found, _) in played.items()}
            yield self._written(name, _about_entry(outside), cells, float(np.median(cpu)))

    def _cells_of(self, name: str) -> dict[Track, Cells]:
        return {
            track: own
            for track, cells in self._cells.items()
            if (own := {(collection, column): each for (collection, by, column), each in cells.items() if by == name})
        }

    def _written(self, name: str, about: Mapping[str, Any], found: Mapping[Track, Cells], cpu_ms: float) -> Path:
        rows = {}
        for collection in self._first.collections:
            units = {track.unit: _figures(track, collection.name, cells) for track, cells in found.items()}
            rows[collection.name] = {**self._about(collection), "units": units}
        record = {"policy": name, **about, "date": self._date, "versions": _versions(), "collections": rows}
        record["protocol"] = {"measure": self._first.measures[0], "seed": self._first.seed} | {
            "tracks": [[track.unit, track.budgets, track.reranker, track.window] for track in TRACKS]
        }
        file = self._folder / f"{name}.json"
        self._folder.mkdir(parents=True, exist_ok=True)
        write_text(file, json.dumps(record, sort_keys=True, separators=(",", ":")) + "\n")
        work = {"cpu_ms": round(cpu_ms, 2), "machine": platform.machine()}
        write_text(file.with_suffix(".cpu.json"), json.dumps(work) + "\n")
        return file

    @property
    def _first(self) -> Grid:
        return self._grids[TRACKS[0]]

    def _installed(self, name: str) -> EntryPoint:
        found = entry_points(group=GROUP)
        known = [*self.presets, *sorted({entry.name for entry in found})]
        if name not in found.names:
            raise ConfigError(f"no policy {name!r}: allowed are {', '.join(known)}{did_you_mean(name, known)}")
        return found[name]

    def _about(self, collection: CollectionEntry) -> dict[str, Any]:
        if collection.name not in self._known:
            self._known[collection.name] = self._described(collection)
        return self._known[collection.name]

    def _described(self, collection: CollectionEntry) -> dict[str, Any]:
        config = self._first.configuration(collection, self._first.baseline)
        dataset = load_dataset(config)
        return {
            "family": self._first.family_of(collection),
            "group": collection.group or collection.name,
            "dataset": dataset.name,
            "queries": len(dataset.judged),
            "inputs": _digest([*self._inputs.of(config).values(), *dataset.judged]),
        }

    def _about_preset(self, entry: PolicyEntry) -> dict[str, Any]:
        code = self._inputs.code_of(self._first.configuration(self._first.collections[0], entry), cellreplay.__name__)
        kind = {"label": entry.policy.label, "kind": entry.kind}
        return kind | {"package": "ragtune", "version": ragtune.__version__, "code": _digest(code[:1])}

    def _replayed(self, grid: Grid, progress: Progress) -> Mapping[tuple[str, str, str], Cell]:
        jobs = [job for job in jobs_of(grid, self._folder / "cells") if job.column not in (FULL, START)]
        return run_jobs(jobs, grid.jobs, progress)

    def _played(self, entry: EntryPoint, track: Track, grid: Grid, progress: Progress) -> tuple[Cells, list[float]]:
        """Cells of an outside policy, and the milliseconds of its own work by request where that is measured."""
        cells: dict[tuple[str, str], Cell] = {}
        cpu: list[float] = []
        closed = self._closed()
        for collection in grid.collections:
            config = grid.configuration(collection, grid.baseline)
            session = session_for(config)
            judged = session.dataset.judged
            measures = Measures(grid.measures, session.dataset.qrels)
            for budget in grid.budgets:
                depth = config["retrieval"]["original_query_depth"]
                answers = play(entry, Table(session, depth, grid.limited, budget, track.window), closed)
                values = measures.of_topics({q: a.ranking for q, a in zip(judged, answers, strict=True)}, {q: q for q in judged})
                charged = np.array([answer.charged for answer in answers])
                none = np.zeros(len(judged), dtype=np.int64)
                cells[collection.name, column_of(budget)] = Cell(values, charged, none, none, ["answered"] * len(judged))
                progress(len(cells), len(grid.collections) * len(grid.budgets))
                if track.unit == DOCS.short and budget == CPU_DOCS and collection is grid.collections[0]:
                    cpu = [answer.cpu_ms for answer in answers[:CPU_QUERIES]]
        return cells, cpu

    def _closed(self) -> list[str]:
        """The folders of all collections and of the records."""
        files: set[Path] = {self._folder}
        for grid in self._grids.values():
            for collection in grid.collections:
                config = grid.configuration(collection, grid.baseline)
                files |= {Path(file).parent for file in self._inputs.of(config)} | {Path(config["dataset"]["path"])}
        return sorted(str(file.resolve()) for file in files)

    def _cpu_ms(self, preset: PolicyEntry) -> float:
        session = session_for(self._first.configuration(self._first.collections[0], preset))
        budget, spent = CostBudget.only(max_reranker_docs=CPU_DOCS), []
        for query_id in session.dataset.judged[:CPU_QUERIES]:
            begun = time.process_time()
            session.controller.run(session.dataset.queries[query_id], budget, query_id=query_id)
            spent.append((time.process_time() - begun) * 1000)
        return float(np.median(spent))


def _about_entry(entry: EntryPoint) -> dict[str, Any]:
    package = entry.module.partition(".")[0]
    files = sorted(code_files(package))
    names = [file.name for file in files]
    return {
        "label": entry.name,
        "kind": "outside",
        "package": entry.dist.name if entry.dist else package,
        "version": entry.dist.version if entry.dist else "unknown",
        "code": _digest([*names, *file_digests(files)]),
    }


def _figures(track: Track, collection: str, cells: Cells) -> dict[str, Any]:
    """Means by budget, and the area of each query under quality against mean cost, in ten-thousandths."""
    chosen = [cells[collection, column_of(budget)] for budget in track.budgets]
    values = np.stack([cell.values[:, 0] for cell in chosen], axis=1)
    spent = [float(cell.charged[:, UNITS.index(track.unit)].mean()) for cell in chosen]
    low, high = np.log2(track.budgets[0]), np.log2(track.budgets[-1])
    cost = np.log2(np.maximum(np.maximum.accumulate(spent), 1e-9))
    areas = [area(cost, own, low, high, stepwise=False) for own in values]
    return {
        "mean": [round(float(mean), 6) for mean in values.mean(axis=0)],
        "spent": [round(amount, 3) for amount in spent],
        "area": [round(10_000 * height) for height in areas],
    }


def _digest(texts: Sequence[Any]) -> str:
    return sha256(json.dumps(list(texts)).encode()).hexdigest()


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: version(name) for name in ("numpy", "ir-measures")}}
