"""Folders and processes of an embedded server.

PostgreSQL refuses to run as root, so a root process starts it as another user. That user often cannot enter root's
folders, and their permissions stay as they are.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import shutil
import signal
import stat
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ragtune.core.errors import StoreError

OPEN_FOLDER = Path("/var/lib/ragtune")
"""Folder for data and programs that would be out of reach elsewhere."""

_log = logging.getLogger(__name__)


class Account(NamedTuple):
    """User and group that run the server."""

    name: str
    user: int
    group: int


def server_account() -> Account | None:
    """The user that runs the server of a root process: ``postgres``, else ``nobody``. None in other processes."""
    import pwd  # not on Windows

    if os.geteuid() != 0:
        return None
    known = {entry.pw_name: Account(entry.pw_name, entry.pw_uid, entry.pw_gid) for entry in pwd.getpwall()}
    account = known.get("postgres") or known.get("nobody")
    if account is None:
        raise StoreError("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")
    return account


def place_of_data(folder: Path, account: Account | None) -> Path:
    """The data folder of a server: ``pgdata`` in its folder, which becomes a link where the account cannot reach it.

    The link leads to :data:`OPEN_FOLDER`, and a warning says so.
    """
    if account is None:
        return (folder / "pgdata").resolve()
    data, barrier = folder / "pgdata", _barrier(folder, account)
    if barrier is not None and not os.path.lexists(data):
        place = _open_folder() / f"{folder.name}-{secrets.token_hex(8)}"
        data.symlink_to(place)
        _log.warning(
            "the user %s, who runs PostgreSQL, cannot enter %s, so the data are in %s", account.name, barrier, place
        )
    place = data.resolve()
    barrier = None if place.parent == OPEN_FOLDER else _barrier(place.parent, account)
    if barrier is not None:
        raise StoreError(
            f"the user {account.name}, who runs PostgreSQL, cannot reach {place}: {barrier} has mode "
            f"{stat.S_IMODE(barrier.stat().st_mode):04o}; open that folder, or move the data below {OPEN_FOLDER} and "
            "put a link in their place"
        )
    return place


def place_of_programs(programs: Path, account: Account | None) -> Path:
    """The given programs, or a copy in :data:`OPEN_FOLDER` where the account cannot run them."""
    if account is None or _barrier(programs / "postgres", account) is None:
        return programs
    package = programs.parents[1]
    version = hashlib.sha256(f"{programs} {(programs / 'postgres').stat().st_mtime_ns}".encode()).hexdigest()[:16]
    copy = _open_folder() / f"programs-{version}"
    if not copy.exists():
        _copy(package, copy)
    return copy / programs.relative_to(package.parent)


def _copy(package: Path, target: Path) -> None:
    # Copied apart and then renamed, so that a kill in between leaves no half copy.
    fresh = target.with_name(f"{target.name}-{secrets.token_hex(4)}")
    unused = shutil.ignore_patterns("pginstall", "include", "__pycache__")
    for part in (package, package.with_name(f"{package.name}.libs")):  # the second one has a Linux wheel's libraries
        if part.exists():
            shutil.copytree(part, fresh / part.name, symlinks=True, ignore=unused)
    for path in (fresh, *fresh.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | 0o444 | (0o111 if mode & 0o100 else 0))
    try:
        fresh.rename(target)
    except OSError:  # another process was faster
        shutil.rmtree(fresh)


def _open_folder() -> Path:
    if not OPEN_FOLDER.exists():
        OPEN_FOLDER.mkdir(parents=True)
        OPEN_FOLDER.chmod(0o711)
    return OPEN_FOLDER


def _barrier(path: Path, account: Account) -> Path | None:
    """The first of a path and its parents that the account may not enter or run."""
    for each in (*reversed(path.parents), path):
        state = each.stat()
        shift = 6 if state.st_uid == account.user else 3 if state.st_gid == account.group else 0
        if not state.st_mode >> shift & 0o1:
            return each
    return None


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
