"""The processes of an embedded server, as the operating system reports them."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from ragtune.core.errors import StoreError


def read_pid_file(data: Path) -> list[str]:
    """Lines of the pid file: pid, data folder, start time, port, socket folder, address, shared memory, status."""
    lines: list[str] = []
    with suppress(OSError):
        lines = (data / "postmaster.pid").read_text().splitlines()
    if len(lines) < 8:
        raise StoreError(f"the embedded server in {data.parent} is not running")
    return [line.strip() for line in lines]


def is_running(data: Path) -> bool:
    """Whether a server runs on the data folder and accepts connections."""
    with suppress(StoreError):
        pid, *_, status = read_pid_file(data)
        return status == "ready" and int(pid) in processes_on(data)
    return False


def processes_on(data: Path) -> list[int]:
    """Live processes of a server on the data folder, which is their working directory. Zombies do not count."""
    import psutil

    found = []
    for process in psutil.process_iter(["name", "status"]):
        if process.info["name"] == "postgres" and process.info["status"] != psutil.STATUS_ZOMBIE:
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if Path(process.cwd()) == data:
                    found.append(process.pid)
    return found


def end_orphans(data: Path) -> None:
    """End the processes that a killed server left at work. Committed data are safe, and a live server is left alone."""
    left = processes_on(data)
    with suppress(OSError, ValueError):
        if int((data / "postmaster.pid").read_text().split("\n", 1)[0]) in left:
            return
    for process in left:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGQUIT)
