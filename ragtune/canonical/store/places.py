"""Where an embedded server's data and programs lie: within reach of the user that it runs as, whose way is not cleared.

PostgreSQL refuses to run as root, so a root process starts it as another user. That one often cannot pass through the
folders of root, and their permissions are not ours to change.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import shutil
import stat
from pathlib import Path
from typing import NamedTuple

from ragtune.core.errors import StoreError

OPEN_FOLDER = Path("/var/lib/ragtune")
"""Where data and programs lie that would lie out of reach."""

_log = logging.getLogger(__name__)


class Account(NamedTuple):
    """User and group that the server runs as."""

    name: str
    user: int
    group: int


def server_account() -> Account | None:
    """The server's user where this process is root's; None to run it as oneself.

    Raises:
        StoreError: if root has no other user to run it as.
    """
    import pwd  # which Windows lacks, where a server's DSN is given

    if os.geteuid() != 0:
        return None
    known = {entry.pw_name: Account(entry.pw_name, entry.pw_uid, entry.pw_gid) for entry in pwd.getpwall()}
    account = known.get("postgres") or known.get("nobody")
    if account is None:
        raise StoreError("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")
    return account


def place_of_data(folder: Path, account: Account | None) -> Path:
    """Where the data of that folder's server lie, or are to be made: ``pgdata`` in it, which may be a link.

    A link to a place in :data:`OPEN_FOLDER` is made, and told in the log, where the account could not reach the data.

    Raises:
        StoreError: if the data lie where the account cannot reach them.
    """
    data = folder / "pgdata"
    barrier = _barrier(folder, account)
    if barrier is not None and not os.path.lexists(data):
        place = _open_folder() / f"{folder.name}-{secrets.token_hex(8)}"
        data.symlink_to(place)
        _log.warning(
            "%s is closed to the user %s that PostgreSQL runs as, so the data lie in %s", barrier, _name(account), place
        )
    place = data.resolve()
    barrier = None if place.parent == OPEN_FOLDER else _barrier(place.parent, account)
    if barrier is not None:
        raise StoreError(
            f"{place} cannot be reached by the user {_name(account)} that PostgreSQL runs as: "
            f"{barrier} has mode {stat.S_IMODE(barrier.stat().st_mode):04o}; open that folder, or move the data below "
            f"{OPEN_FOLDER} and put a link in their place"
        )
    return place


def place_of_programs(programs: Path, account: Account | None) -> Path:
    """The given programs, or a copy of them in :data:`OPEN_FOLDER` where the account could not run them."""
    if _barrier(programs / "postgres", account) is None:
        return programs
    package = programs.parents[1]
    state = (programs / "postgres").stat()
    version = hashlib.sha256(f"{programs} {state.st_size} {state.st_mtime_ns}".encode()).hexdigest()[:16]
    copy = _open_folder() / f"programs-{version}"
    if not copy.exists():
        _copy(package, copy)
    return copy / programs.relative_to(package.parent)


def _copy(package: Path, target: Path) -> None:
    # Made aside and renamed, so that a kill in between leaves no half copy.
    fresh = target.with_name(f"{target.name}-{secrets.token_hex(4)}")
    unused = shutil.ignore_patterns("pginstall", "include", "__pycache__")
    for part in (package, package.with_name(f"{package.name}.libs")):  # where a wheel for Linux has its libraries
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


def _barrier(path: Path, account: Account | None) -> Path | None:
    """The first of a path and the folders above it that the account may not pass through or run."""
    if account is None:
        return None
    for each in (*reversed(path.parents), path):
        state = each.stat()
        shift = 6 if state.st_uid == account.user else 3 if state.st_gid == account.group else 0
        if not state.st_mode >> shift & 0o1:
            return each
    return None


def _name(account: Account | None) -> str:
    return "" if account is None else account.name
