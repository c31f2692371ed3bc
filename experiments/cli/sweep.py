"""Sweeps: one parent run, children under it, one table at the end; what their jobs leave in the folder."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from experiments.config.compose import Jobs, combinations, parsed, register_resolvers
from experiments.config.paths import PROJECT_ROOT
from experiments.evaluate.summary import Summary
from experiments.publish.files import SUMMARY, read_summary
from experiments.publish.folders import locked
from experiments.publish.sweep_table import SweepFigures, print_sweep
from experiments.publish.terminal import print_path, print_warning
from experiments.publish.track import PARENT_FILE, Tracking, parent_of
from experiments.replay.component import component
from ragtune.cli.dispatch import FAILED
from ragtune.core.errors import DatasetError
from ragtune.core.plain import first_line

_NAME_LENGTH = 100

FAILURE = "error.json"


class Sweep:
    """A sweep in progress. It takes its folder and opens its parent run before the jobs fan out."""

    def __init__(self, config: DictConfig) -> None:
        register_resolvers()
        params: dict[str, Any] = OmegaConf.select(config, "hydra.sweeper.params") or {}
        task: Any = OmegaConf.to_container(config.hydra.overrides.task, resolve=False)
        overrides = [parsed(word) for word in (*(f"{name}={value}" for name, value in params.items()), *task)]
        self._swept = [word for word in overrides if word.is_sweep_override()]
        is_basic = str(OmegaConf.select(config, "hydra.sweeper._target_")).endswith(".BasicSweeper")
        self.planned: Jobs = []
        with suppress(HydraException):  # of a glob, or where Hydra will complain
            self.planned = combinations(overrides) if is_basic else []
        if "submitit" in str(OmegaConf.select(config, "hydra.launcher._target_")):
            # Its jobs are Python processes of their own, here or on other machines, which would not find this checkout.
            os.environ["PYTHONPATH"] = os.pathsep.join([str(PROJECT_ROOT), *filter(None, [os.getenv("PYTHONPATH")])])
        self.folder = Path(config.hydra.sweep.dir).absolute()
        self._earlier = job_folders(self.folder)
        self._lock = ExitStack()
        self._tracking: Tracking | None = None
        self._parent: str | None = None
        self._is_resumed = False
        with suppress(OSError):  # Hydra is about to write there too, and refuses the sweep
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock.enter_context(locked(self.folder, "hydra.sweep.dir"))
        if self.folder.is_dir():
            self._open_parent(config)

    def _open_parent(self, config: DictConfig) -> None:
        try:
            node = OmegaConf.to_container(config.tracking, resolve=True)
            tracking: Tracking = component({"tracking": node}, "tracking")
            resumed = parent_of(self.folder / "job") if config.resume else None
            parent = resumed or tracking.start_sweep(self._name())
        except Exception as error:
            sys.stderr.write(f"warning: tracking is not available, results go to files only: {first_line(error)}\n")
            return
        if resumed is None:
            varies = [word.get_key_element() for word in self._swept]
            said = json.dumps({"run_id": parent, "varies": varies})
            (self.folder / PARENT_FILE).write_text(said, encoding="utf-8")
        self._tracking, self._parent, self._is_resumed = tracking, parent, resumed is not None

    def _name(self) -> str:
        """The name of the parent run: its folder, if that was chosen, what is swept, and the number of jobs."""
        swept = " ".join(str(word.input_line) for word in self._swept)
        swept = swept.replace("budget.max_reranker_docs=", "budget=")  # as it was written
        swept = swept if len(swept) <= _NAME_LENGTH else f"{swept[: _NAME_LENGTH - 3]}..."
        chosen = "" if re.fullmatch(r"[\d_-]+", self.folder.name) else self.folder.name
        title = ": ".join(filter(None, (chosen, swept))) or self.folder.name
        return f"{title} ({len(self.planned)} jobs)" if self.planned else title

    def end(self) -> None:
        """Close the parent run and report all jobs; SystemExit with the largest exit code of the failed ones."""
        failures = failed_jobs(self.folder)
        try:
            _release_workers()
            self._report("FAILED" if failures else "FINISHED")
        finally:
            self._lock.close()
        if failures:
            sys.stderr.write(f"error: failed jobs: {', '.join(failures)}\n")
        print_path(self.folder)
        if failures:
            raise SystemExit(max(failures.values()))

    def abandon(self, *, is_interrupted: bool) -> None:
        """Close a sweep that the user interrupted, or that was refused or broke; without a job it leaves nothing."""
        _release_workers()
        done = summaries(self.folder)
        if self.planned and {str(number) for number in range(len(self.planned))} <= set(done):
            self._close("FINISHED")  # nothing was taken away
        elif job_folders(self.folder) != self._earlier:
            label = f"{len(done)} of {len(self.planned)} jobs" if self.planned else f"{len(done)} jobs"
            status = "KILLED" if is_interrupted else "FAILED"
            try:
                self._report(status, label)
            except OSError as error:
                print_warning(f"the table of the finished jobs could not be written: {error}")
                self._close(status)
        elif not self._is_resumed:
            with suppress(Exception):  # the server went down
                if self._tracking and self._parent:
                    self._tracking.discard(self._parent)
            (self.folder / PARENT_FILE).unlink(missing_ok=True)
        if not job_folders(self.folder):
            for name in (PARENT_FILE, "multirun.yaml"):
                (self.folder / name).unlink(missing_ok=True)
        self._lock.close()

    def _report(self, status: str, partial: str = "") -> None:
        self._close(status, print_sweep(summaries(self.folder), self.folder, partial=partial), partial)

    def _close(self, status: str, tables: Sequence[Path] = (), partial: str = "") -> None:
        if not self._tracking or not self._parent:
            return
        figures = SweepFigures(summaries(self.folder), len(failed_jobs(self.folder)), len(self.planned), partial)
        try:
            self._tracking.describe_sweep(self._parent, tables, figures)
            self._tracking.finish(self._parent, status)
        except Exception as error:  # the server went down: the files are all there
            print_warning(f"tracking of the sweep failed ({first_line(error)}); its table is in {self.folder}")


def _release_workers() -> None:
    """End joblib's idle processes now, if there are any; left to themselves they take two seconds to wind up."""
    if "joblib.externals.loky" in sys.modules:
        from joblib.externals.loky import get_reusable_executor

        get_reusable_executor().shutdown(wait=True, kill_workers=True)


def job_folders(folder: Path) -> dict[str, int]:
    """Time of the last change, in nanoseconds, of every job's folder: a job makes files in its own."""
    if not folder.is_dir():
        return {}
    # Hidden ones are a launcher's own.
    jobs = (entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    return {entry.name: entry.stat().st_mtime_ns for entry in jobs}


def note_failure(folder: Path, exit_code: int) -> None:
    """Note the failure of a job in its folder, where the process of the sweep finds it."""
    with suppress(OSError):  # a full disk has been complained about already
        (folder / FAILURE).write_text(json.dumps({"exit_code": exit_code}) + "\n", encoding="utf-8")


def failed_jobs(folder: Path) -> dict[str, int]:
    """Exit codes of the jobs that failed by job, in the order of their numbers."""
    return {file.parent.name: _exit_code(file) for file in sorted(folder.glob(f"*/{FAILURE}"), key=_job_number)}


def _exit_code(file: Path) -> int:
    try:
        return int(json.loads(file.read_text(encoding="utf-8"))["exit_code"])
    except (ValueError, KeyError):  # there was no room for it
        return FAILED


def summaries(folder: Path) -> dict[str, Summary]:
    """Summaries of the jobs that finished by job, in the order of their numbers; without failed and damaged ones."""
    found = {}
    for file in sorted(folder.glob(f"*/{SUMMARY}"), key=_job_number):
        if (file.parent / FAILURE).exists():
            continue
        with suppress(DatasetError):
            if summary := read_summary(file.parent):
                found[file.parent.name] = summary
    return found


def _job_number(file: Path) -> tuple[int, str]:
    return len(file.parent.name), file.parent.name
