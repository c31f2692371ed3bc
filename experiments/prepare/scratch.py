"""Where a corpus graph is built before it takes its place: what a killed build leaves is replaced by the next one."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from experiments.publish.lock import is_still
from ragtune.core.errors import ConfigError


@contextmanager
def scratch_beside(out: Path) -> Iterator[Path]:
    """An empty folder ``.new-NAME`` beside ``out``, of this process alone, removed at the end.

    Its owner holds a lock on it, which the system takes back however the process ends: an unlocked one is stale.

    Raises:
        ConfigError: if a living process owns it.
    """
    folder = out.parent / f".new-{out.name}"
    folder.mkdir(exist_ok=True)
    lock = os.open(folder, os.O_RDONLY)
    try:
        if not _owned(lock, folder):
            raise ConfigError(f"{str(out)!r} is being built by another process: wait for it, or name another folder")
        for stale in folder.iterdir():
            shutil.rmtree(stale) if stale.is_dir() else stale.unlink()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


def _owned(lock: int, folder: Path) -> bool:
    """Whether the lock could be had, and is on the folder that is there now: an owner removes its own."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return is_still(lock, folder)
