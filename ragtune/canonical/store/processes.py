"""What the operating system says about an embedded server: its processes, its user, its shared memory."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from ragtune.core.errors import StoreError

_SHARED_MEMORY_MIN = 1 << 30
_log = logging.getLogger(__name__)


def read_pid_file(data: Path) -> list[str]:
    """Lines of the pid file: pid, data folder, start time, port, socket folder, address, shared memory, status.

    Raises:
        StoreError: if there is none, or it is not yet complete.
    """
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
    except OSError:
        lines = []
    if len(lines) < 8:
        raise StoreError(f"the embedded server in {data.parent} is not running")
    return [line.strip() for line in lines]


def is_running(data: Path) -> bool:
    """Whether a server runs on that data folder and takes connections."""
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


def server_account() -> tuple[int, int] | None:
    """User and group of the server where this process is root's; None to run as oneself.

    Raises:
        StoreError: if root has no other user to run it as.
    """
    import pwd

    if os.geteuid() != 0:
        return None
    known = {entry.pw_name: (entry.pw_uid, entry.pw_gid) for entry in pwd.getpwall()}
    account = known.get("postgres") or known.get("nobody")
    if account is None:
        raise StoreError("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")
    return account


def let_through(path: Path) -> None:
    """Where this process is root's, let the server's user pass through the folders above ``path``."""
    if os.geteuid() != 0:
        return
    for folder in path.parents:
        mode = folder.stat().st_mode
        if not mode & 0o001:
            _log.warning("%s: now passable for other users (o+x), since PostgreSQL does not run as root", folder)
            folder.chmod(mode | 0o001)


def has_little_shared_memory() -> bool:
    """Whether ``/dev/shm`` is too small for the memory of a parallel index build."""
    try:
        state = os.statvfs("/dev/shm")
    except OSError:
        return False
    return state.f_bavail * state.f_frsize < _SHARED_MEMORY_MIN
