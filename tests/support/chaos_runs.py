"""Runs of ``run.py`` that are killed at a moment and resumed, and what must hold of what they leave."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pandas as pd
import psutil
from command_line import content, finish, finished_queries, start_script
from patience import HANG_S

from experiments.publish.files import read_summary

KILLED = -signal.SIGKILL
BASELINES = 2
"""Batches of a query in a complete run besides the policy's: of fixed depth, and of everything."""


@dataclass(frozen=True)
class Moment:
    """When a process dies: at its ``change``-th change of a file, or ``seconds`` after its start."""

    change: int = 0
    seconds: float = 0.0

    @classmethod
    def any(cls, rng: Random, changes: int, seconds: float) -> Moment:
        """A random one of a command that makes so many changes and takes so long."""
        return cls(change=rng.randint(1, changes)) if rng.random() < 0.5 else cls(seconds=rng.uniform(0, seconds))


@dataclass(frozen=True)
class Job:
    """A command and the folder that it is given in; results go to ``out`` below it.

    Attributes:
        arguments: without ``hydra.run.dir``.
        cwd: made if missing.
        environment: of its processes.
        script: what is run.
    """

    arguments: list[str]
    cwd: Path
    environment: Mapping[str, str]
    script: str = "run.py"

    @property
    def out(self) -> Path:
        """The run's folder."""
        return self.cwd / "out"

    @property
    def log(self) -> Path:
        """Where the slow reranker notes the queries of its batches."""
        return self.cwd / "log"

    def start(self, *more: str, chaos: str = "") -> subprocess.Popen[str]:
        """Start it; ``chaos`` as of ``tests/chaos/hook``."""
        self.cwd.mkdir(exist_ok=True)
        own = {"RERANK_LOG": str(self.log), "CHAOS_COUNT": str(self.cwd / "changes"), "CHAOS": chaos}
        folder = ["hydra.run.dir=out"] if self.script == "run.py" else []
        environment = {**self.environment, **own}
        return start_script(*self.arguments, *folder, *more, cwd=self.cwd, environment=environment, script=self.script)

    def run(self, *more: str, chaos: str = "") -> SimpleNamespace:
        """Run it to its end."""
        return finish(self.start(*more, chaos=chaos or f"files:0:0:{self.cwd}"), HANG_S)

    def changes(self) -> int:
        """How often the last undisturbed command changed a file."""
        return int((self.cwd / "changes").read_text())

    def run_until(self, moment: Moment, *more: str) -> SimpleNamespace:
        """Run it until then, or to its end if that comes first; ``code`` tells which."""
        process = self.start(*more, chaos=f"files:{moment.change}:0:{self.cwd}")
        try:
            process.wait(HANG_S if moment.change else moment.seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
        return finish(process)

    def resume(self) -> SimpleNamespace:
        """Go on to the end; what is in the journal is not reranked again."""
        kept, before = finished_queries(self.out), self._reranked()
        ended = self.run("resume=true")
        again = Counter(self._reranked()[len(before) :])
        assert all(again[query_id] <= BASELINES for query_id in kept), "a finished query was reranked again"
        return ended

    def _reranked(self) -> list[str]:
        return self.log.read_text().split() if self.log.exists() else []


def processes(mark: str, parent: int | None = None) -> list[psutil.Process]:
    """Those begun by a process, this one if none is named, and by what it began, whose command line holds the mark."""
    return [process for process in psutil.Process(parent).children(recursive=True) if mark in _command(process)]


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def assert_same_results(folder: Path, whole: Mapping[str, object]) -> None:
    """The run's folder holds the files of an undisturbed run, byte by byte, and besides only why tracking failed."""
    got = content(folder)
    names = set(whole) - {"tracking_error.txt"}
    assert set(got) - {"tracking_error.txt"} == names
    for name in sorted(names):
        assert got[name] == whole[name], name


def assert_clear(ended: SimpleNamespace, code: int) -> None:
    """It ended with that code and one message, no traceback."""
    assert ended.code == code, ended.err
    assert "Traceback" not in ended.err, ended.err
    errors = [line for line in ended.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == (1 if code else 0), ended.err


def assert_tracked_once(uri: str, folder: Path, experiment: str = "ragtune") -> None:
    """The experiment shows one run, the folder's, finished, with the whole curve and every file."""
    from mlflow import MlflowClient

    summary = read_summary(folder)
    client = MlflowClient(tracking_uri=uri)
    [run] = client.search_runs([client.get_experiment_by_name(experiment).experiment_id])
    assert (run.info.run_id, run.info.status) == (summary.mlflow_run_id, "FINISHED")
    curve = pd.read_csv(folder / "curve.csv")
    logged = client.get_metric_history(run.info.run_id, "curve/nDCG_10")
    assert sorted((m.step, m.value) for m in logged) == list(zip(curve["documents"], curve["nDCG@10"], strict=True))
    artifacts = {file.path for file in client.list_artifacts(run.info.run_id)}
    assert artifacts == {file.name for file in folder.iterdir()} - {"tracking_error.txt"}
