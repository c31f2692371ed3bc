"""Sweeps: one parent run, children under it, one table at the end; what their jobs leave in the folder."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from hydra.core.override_parser.types import Override
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

NAME_LENGTH = 100
"""Characters that a sweep's name takes for the options that it varies."""


@dataclass(frozen=True)
class _Sweep:
    """A sweep in progress.

    Attributes:
        folder: where its jobs' folders are made.
        jobs: the jobs' folders that it found there, with the time of their last change.
        planned: overrides of its jobs, in their order; none where they are not known beforehand.
        tracking, parent: where its parent run is, and which; None where it has none.
        is_resumed: whether that is the parent run of an earlier sweep, which this one goes on with.
        lock: on the folder; closed when the sweep has ended.
    """

    folder: Path
    jobs: dict[str, int]
    planned: Jobs = ()
    tracking: Tracking | None = None
    parent: str | None = None
    is_resumed: bool = False
    lock: ExitStack = field(default_factory=ExitStack)


_unfinished: list[_Sweep] = []
"""The sweep in progress, if any."""


def begin_sweep(config: DictConfig) -> None:
    """Take the sweep's folder and open its parent run, before the jobs fan out."""
    register_resolvers()
    planned = _planned_jobs(config)
    if OmegaConf.select(config, "hydra.sweeper.direction") == "minimize":
        sys.stderr.write("warning: hydra.sweeper.direction=minimize finds the worst: hydra/sweeper=tune maximizes\n")
    if "submitit" in str(OmegaConf.select(config, "hydra.launcher._target_")):
        # Its jobs are Python processes of their own, here or on other machines, which would not find this checkout.
        os.environ["PYTHONPATH"] = os.pathsep.join([str(PROJECT_ROOT), *filter(None, [os.getenv("PYTHONPATH")])])
    folder = Path(config.hydra.sweep.dir).absolute()
    _unfinished.append(_open_parent(config, _take_folder(_Sweep(folder, job_folders(folder), planned))))


def end_sweep(config: DictConfig) -> None:
    """Close the parent run and report all jobs, once the last of them has ended."""
    sweep = _unfinished[0]
    _unfinished.clear()
    release_workers()
    folder = sweep.folder
    failures = failed_jobs(folder)
    _report(sweep, "FAILED" if failures else "FINISHED")
    if failures:
        sys.stderr.write(f"error: failed jobs: {', '.join(failures)}\n")
    print_path(folder)
    sweep.lock.close()
    if failures:
        raise SystemExit(max(failures.values()))


def _planned_jobs(config: DictConfig) -> Jobs:
    """Overrides of the jobs of a sweep; none where a sweeper decides as it goes, or Hydra will complain."""
    if not str(OmegaConf.select(config, "hydra.sweeper._target_")).endswith(".BasicSweeper"):
        return []
    try:
        return combinations(_overrides(config))
    except HydraException:
        return []


def _overrides(config: DictConfig) -> list[Override]:
    """The sweep's overrides; none where Hydra will complain."""
    given = [f"{name}={value}" for name, value in (OmegaConf.select(config, "hydra.sweeper.params") or {}).items()]
    with suppress(HydraException):
        return [parsed(word) for word in (*given, *(OmegaConf.select(config, "hydra.overrides.task") or []))]
    return []


def _sweep_name(config: DictConfig, folder: Path, jobs: int) -> str:
    """What the parent run is called: its folder, if that was chosen, what is swept, and the number of jobs."""
    swept = " ".join(str(word.input_line) for word in _overrides(config) if word.is_sweep_override())
    swept = swept.replace("budget.max_reranker_docs=", "budget=")  # as it was written
    swept = swept if len(swept) <= NAME_LENGTH else f"{swept[: NAME_LENGTH - 3]}..."
    chosen = "" if re.fullmatch(r"[\d_-]+", folder.name) else folder.name
    title = ": ".join(filter(None, (chosen, swept))) or folder.name
    return f"{title} ({jobs} jobs)" if jobs else title


def _swept_keys(config: DictConfig) -> list[str]:
    """Names of the options that the sweep varies."""
    return [word.get_key_element() for word in _overrides(config) if word.is_sweep_override()]


def _take_folder(sweep: _Sweep) -> _Sweep:
    """The sweep, with its folder to itself."""
    with suppress(OSError):  # Hydra is about to write there too, and refuses the sweep
        sweep.folder.mkdir(parents=True, exist_ok=True)
        sweep.lock.enter_context(locked(sweep.folder, "hydra.sweep.dir"))
    return sweep


def _open_parent(config: DictConfig, sweep: _Sweep) -> _Sweep:
    """The sweep with its parent run: the one that an interrupted sweep began, else a new one."""
    folder = sweep.folder
    if not folder.is_dir():
        return sweep
    try:
        node = OmegaConf.to_container(config.tracking, resolve=True)
        tracking: Tracking = component({"tracking": node}, "tracking")
        resumed = parent_of(folder / "job") if config.resume else None
        parent = resumed or tracking.start_sweep(_sweep_name(config, folder, len(sweep.planned)))
    except Exception as error:
        sys.stderr.write(f"warning: tracking is not available, results go to files only: {first_line(error)}\n")
        return sweep
    if resumed is None:
        said = json.dumps({"run_id": parent, "varies": _swept_keys(config)})
        (folder / PARENT_FILE).write_text(said, encoding="utf-8")
    return replace(sweep, tracking=tracking, parent=parent, is_resumed=resumed is not None)


def release_workers() -> None:
    """End joblib's idle processes now, if there are any; left to themselves they take two seconds to wind up."""
    if "joblib.externals.loky" in sys.modules:
        from joblib.externals.loky import get_reusable_executor

        get_reusable_executor().shutdown(wait=True, kill_workers=True)


def _report(sweep: _Sweep, status: str, partial: str = "") -> None:
    """Print and write the table of the finished jobs, and close the parent run with it."""
    _close(sweep, status, print_sweep(summaries(sweep.folder), sweep.folder, partial=partial), partial)


def _close(sweep: _Sweep, status: str, tables: Sequence[Path] = (), partial: str = "") -> None:
    """Close the parent run with its figures and tables."""
    if not sweep.tracking or not sweep.parent:
        return
    figures = SweepFigures(summaries(sweep.folder), len(failed_jobs(sweep.folder)), len(sweep.planned), partial)
    try:
        sweep.tracking.describe_sweep(sweep.parent, tables, figures)
        sweep.tracking.finish(sweep.parent, status)
    except Exception as error:  # the server went down: the files are all there
        print_warning(f"tracking of the sweep failed ({first_line(error)}); its table is in {sweep.folder}")


def folder_in_progress() -> Path | None:
    """Folder of the sweep in progress, if any."""
    return _unfinished[0].folder if _unfinished else None


def planned_jobs() -> Jobs:
    """Overrides of the jobs of the sweep in progress in this process, in their order, as far as they are known."""
    return _unfinished[0].planned if _unfinished else ()


def abandon_unfinished(*, is_interrupted: bool) -> None:
    """Close a sweep that was cut short; a sweep without a single job leaves nothing behind."""
    for sweep in _unfinished:
        release_workers()
        if sweep.is_resumed and _is_complete(sweep):
            _close(sweep, "FINISHED")
        elif is_interrupted:
            _report_interrupted(sweep)
        elif job_folders(sweep.folder) != sweep.jobs:
            _close(sweep, "FAILED")
        else:
            _leave_as_it_was(sweep)
        if sweep.folder.is_dir() and not job_folders(sweep.folder):
            for name in (PARENT_FILE, "multirun.yaml"):
                (sweep.folder / name).unlink(missing_ok=True)
        sweep.lock.close()
    _unfinished.clear()


def _is_complete(sweep: _Sweep) -> bool:
    """Whether every planned job has results, so that an interruption or a refusal took nothing away."""
    planned = {str(number) for number in range(len(sweep.planned))}
    return bool(planned) and planned <= set(summaries(sweep.folder))


def _report_interrupted(sweep: _Sweep) -> None:
    """Close the parent run with the table of the finished jobs, which is labelled as partial if any are missing."""
    if _is_complete(sweep):
        _report(sweep, "FINISHED")
        return
    done = len(summaries(sweep.folder))
    try:
        _report(sweep, "KILLED", f"{done} of {len(sweep.planned)} jobs" if sweep.planned else f"{done} jobs")
    except OSError as error:
        print_warning(f"the table of the finished jobs could not be written: {error}")
        _close(sweep, "KILLED")


def _leave_as_it_was(sweep: _Sweep) -> None:
    """Take back what a sweep without a single job has written."""
    if sweep.is_resumed:
        return
    with suppress(Exception):  # the server went down
        if sweep.tracking and sweep.parent:
            sweep.tracking.discard(sweep.parent)
    (sweep.folder / PARENT_FILE).unlink(missing_ok=True)


FAILURE = "error.json"
"""File in the folder of a job that failed, with its exit code."""


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


def forget_failure(folder: Path) -> None:
    """Remove the note of an earlier failure of the job."""
    (folder / FAILURE).unlink(missing_ok=True)


def failed_jobs(folder: Path) -> dict[str, int]:
    """Exit codes of the jobs that failed by job, in the order of their numbers."""
    return {file.parent.name: _exit_code(file) for file in sorted(folder.glob(f"*/{FAILURE}"), key=_job_number)}


def _exit_code(file: Path) -> int:
    try:
        return int(json.loads(file.read_text(encoding="utf-8"))["exit_code"])
    except (ValueError, KeyError):  # there was no room for it
        return FAILED


def summaries(folder: Path) -> dict[str, Summary]:
    """Summaries of a sweep's finished jobs by job, in the order of their numbers.

    A job that has failed is left out, though it may have results (those of the queries that were not given up), and so
    is one whose summary is damaged: it has failed, and has said so.
    """
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
