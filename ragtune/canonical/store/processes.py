"""What the operating system says about an embedded server: its processes, its shared memory."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from ragtune.core.errors import StoreError

_SHARED_MEMORY_MIN = 1 << 30


def read_pid_file(data: Path) -> list[str]:
    """Lines of the pid file: pid, data folder, start time, port, socket folder, address, shared memory, status.

    Raises:
        StoreError: if the file is missing or not yet complete.
    """
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
    except OSError:
        lines = []
    if len(lines) < 8:
        raise StoreError(f"the embedded server in {data.parent} is not running")
    return [line.strip() for line in lines]


def is_running(data: Path) -> bool:
    """Whether a server runs on the data folder and takes connections."""
    try:
        pid, *_, status = read_pid_file(data)
    except StoreError:
        return False
    return status == "ready" and int(pid) in processes_on(data)


def processes_on(data: Path) -> list[int]:
    """Live processes of a server on that folder: all have it as their working directory. Zombies are dead."""
    import psutil

    found = []
    for process in psutil.process_iter(["name", "status"]):
        if process.info["name"] != "postgres" or process.info["status"] == psutil.STATUS_ZOMBIE:
            continue
        try:
            if Path(process.cwd()) == data:
                found.append(process.pid)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def end_orphans(data: Path) -> None:
    """End what a killed server left at work, as the server itself would have; what was committed is kept.

    Nothing is done while the server that the pid file names is alive.
    """
    left = processes_on(data)
    try:
        pid = int((data / "postmaster.pid").read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        pid = 0
    if pid in left:
        return
    for process in left:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGQUIT)


def has_little_shared_memory() -> bool:
    """Whether ``/dev/shm`` is too small for the memory of a parallel index build."""
    try:
        state = os.statvfs("/dev/shm")  # noqa: S108 -- looked at, not written to
    except OSError:
        return False
    return state.f_bavail * state.f_frsize < _SHARED_MEMORY_MIN
