"""What the jobs of a sweep leave in its folder."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from experiments.evaluate.summary import Summary
from experiments.publish.files import SUMMARY, read_summary
from ragtune.cli.dispatch import FAILED
from ragtune.core.errors import DatasetError

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
