"""What the jobs of a sweep leave in its folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from experiments.evaluate.summary import Summary
from experiments.publish.files import SUMMARY, read_summary
from ragtune.cli.dispatch import FAILED
from ragtune.core.errors import DatasetError

FAILURE = "error.json"
"""File in the folder of a job that failed, with its exit code and overrides."""


def job_folders(folder: Path) -> dict[str, int]:
    """Time of the last change, in nanoseconds, of every job's folder: a job makes files in its own."""
    if not folder.is_dir():
        return {}
    # Hidden ones are a launcher's own.
    jobs = (entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    return {entry.name: entry.stat().st_mtime_ns for entry in jobs}


def note_failure(folder: Path, exit_code: int, overrides: Sequence[str] = ()) -> None:
    """Note the failure of a job in its folder, where the process of the sweep finds it."""
    known = {"exit_code": exit_code, "overrides": list(overrides)}
    with suppress(OSError):  # a full disk has been complained about already
        (folder / FAILURE).write_text(json.dumps(known) + "\n", encoding="utf-8")


def forget_failure(folder: Path) -> None:
    """Remove the note of an earlier failure of the job."""
    (folder / FAILURE).unlink(missing_ok=True)


def failed_jobs(folder: Path) -> dict[str, int]:
    """Exit codes of the jobs that failed by job, in the order of their numbers."""
    return {job: int(known.get("exit_code", FAILED)) for job, known in _failures(folder).items()}


def choices_of_failed(folder: Path) -> dict[str, list[str]]:
    """Overrides of the jobs that failed by job, in the order of their numbers, where they are known."""
    return {job: known["overrides"] for job, known in _failures(folder).items() if known.get("overrides")}


def _failures(folder: Path) -> dict[str, dict[str, Any]]:
    return {file.parent.name: _read(file) for file in sorted(folder.glob(f"*/{FAILURE}"), key=_job_number)}


def _read(file: Path) -> dict[str, Any]:
    try:
        known: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:  # there was no room for it
        return {}
    return known


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
