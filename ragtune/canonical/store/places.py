"""Where root's embedded server has its data and programs: its user often cannot enter root's folders."""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import shutil
from pathlib import Path
from pwd import struct_passwd

OPEN_FOLDER = Path("/var/lib/ragtune")
"""Folder for data and programs that would be out of reach elsewhere."""

_log = logging.getLogger(__name__)


def place_of_data(folder: Path, account: struct_passwd | None) -> Path:
    """``folder/pgdata``; a link into :data:`OPEN_FOLDER`, with a warning, where the account cannot reach it."""
    data = folder / "pgdata"
    barrier = _barrier(folder, account)
    if account is not None and barrier is not None and not os.path.lexists(data):
        place = _open_folder() / f"{folder.name}-{secrets.token_hex(8)}"
        data.symlink_to(place)
        _log.warning("the user %s cannot enter %s, so PostgreSQL's data are in %s", account.pw_name, barrier, place)
    return data.resolve()


def place_of_programs(programs: Path, account: struct_passwd | None) -> Path:
    """The given programs, or a copy in :data:`OPEN_FOLDER` where the account cannot run them."""
    if _barrier(programs / "postgres", account) is None:
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


def _barrier(path: Path, account: struct_passwd | None) -> Path | None:
    """The first of a path and its parents that the account may not enter or run."""
    if account is None:
        return None
    for each in (*reversed(path.parents), path):
        state = each.stat()
        shift = 6 if state.st_uid == account.pw_uid else 3 if state.st_gid == account.pw_gid else 0
        if not state.st_mode >> shift & 0o1:
            return each
    return None
