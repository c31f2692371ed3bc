"""The folder in which a corpus graph is built before it takes its place; the next build removes one left by a kill."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from experiments.publish.folders import is_still
from ragtune.core.errors import ConfigError


@contextmanager
def scratch_beside(out: Path) -> Iterator[Path]:
    """Provide an empty folder ``.new-NAME`` beside ``out``, which no other process uses, and remove it at the end.

    The process holds a lock on the folder, which the system releases however the process ends. So a folder without a
    lock was left by a process that is gone.

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
