"""Sweeps: one parent run, children under it, one table at the end."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from experiments.build import component
from experiments.config import register_resolvers
from experiments.outputs import SUMMARY, read_summary
from experiments.terminal import print_path, print_sweep
from experiments.track import PARENT_FILE, Tracking, parent_of

FAILURE = "error.json"
"""In the folder of a job that failed: its exit code."""

_unfinished: list[tuple[Path, Tracking | None, str | None]] = []
"""The sweep in progress: its folder, its tracking and its parent run."""


class SweepCallback(Callback):
    """Opens the parent run before the jobs fan out and reports all of them when the last has ended."""

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        register_resolvers()
        folder = Path(config.hydra.sweep.dir).absolute()
        tracking, parent = None, None
        if not config.dry_run:
            tracking, parent = _open_parent(config, folder)
        _unfinished.append((folder, tracking, parent))

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        folder, tracking, parent = _unfinished[0]
        if config.dry_run:
            return
        _unfinished.clear()
        _release_workers(config)
        failures = failed_jobs(folder)
        if tracking and parent:
            _finish(tracking, parent, "FAILED" if failures else "FINISHED")
        print_sweep(summaries(folder), folder / "sweep.csv")
        if failures:
            sys.stderr.write(f"error: failed jobs: {', '.join(failures)}\n")
        print_path(folder)
        if failures:
            raise SystemExit(max(failures.values()))


def _open_parent(config: DictConfig, folder: Path) -> tuple[Tracking | None, str | None]:
    """Tracking and the parent run's id: the one that an interrupted sweep began, else a new one."""
    try:
        node = OmegaConf.to_container(config.tracking, resolve=True)
        tracking: Tracking = component({"tracking": node}, "tracking")
        parent = (parent_of(folder / "job") if config.resume else None) or tracking.start_sweep(folder.name)
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        sys.stderr.write(f"warning: tracking is not available, results go to files only: {reason}\n")
        return None, None
    folder.mkdir(parents=True, exist_ok=True)
    (folder / PARENT_FILE).write_text(json.dumps({"run_id": parent}), encoding="utf-8")
    return tracking, parent


def _release_workers(config: DictConfig) -> None:
    """End the joblib launcher's idle processes now; left to themselves they take two seconds to wind up."""
    if "joblib" in str(OmegaConf.select(config, "hydra.launcher._target_")):
        from joblib.externals.loky import get_reusable_executor

        get_reusable_executor().shutdown(wait=True, kill_workers=True)


def _finish(tracking: Tracking, parent: str, status: str) -> None:
    with suppress(Exception):  # the server went down: the files are all there
        tracking.finish(parent, status)


def abandon_unfinished() -> None:
    """Close a sweep that was refused or interrupted before its end; one without a single job leaves nothing behind."""
    for folder, tracking, parent in _unfinished:
        if tracking and parent:
            _finish(tracking, parent, "KILLED")
        if folder.is_dir() and not any(entry.is_dir() for entry in folder.iterdir()):
            for name in (PARENT_FILE, "multirun.yaml"):
                (folder / name).unlink(missing_ok=True)
    _unfinished.clear()


def note_failure(folder: Path, exit_code: int) -> None:
    """Leave word, in a job's folder, for the process that runs the sweep."""
    with suppress(OSError):  # a full disk has been complained about already
        (folder / FAILURE).write_text(json.dumps({"exit_code": exit_code}) + "\n", encoding="utf-8")


def forget_failure(folder: Path) -> None:
    """The job is tried again."""
    (folder / FAILURE).unlink(missing_ok=True)


def failed_jobs(folder: Path) -> dict[str, int]:
    """Exit codes of the jobs that failed, by job number."""
    files = sorted(folder.glob(f"*/{FAILURE}"), key=_job_number)
    return {file.parent.name: int(json.loads(file.read_text(encoding="utf-8"))["exit_code"]) for file in files}


def summaries(folder: Path) -> list[dict[str, Any]]:
    """Summaries of a sweep's finished jobs, by job number."""
    jobs = [file.parent for file in sorted(folder.glob(f"*/{SUMMARY}"), key=_job_number)]
    return [{"job": job.name, **summary} for job in jobs if (summary := read_summary(job))]


def _job_number(file: Path) -> tuple[int, str]:
    return len(file.parent.name), file.parent.name
