"""Folders of runs, which Hydra makes before a run begins: one process uses a folder, and one that stays empty goes."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile

from ragtune.core.errors import ConfigError

LOCK = ".lock"
"""The file in a folder in use on which its owner holds a lock; a regular end removes it."""


_new: list[Path] = []
"""Folders that did not exist before the run, innermost first."""


def note_missing(folder: Path) -> None:
    """Remember which of a folder and its parents do not exist yet."""
    folder = folder.absolute()
    _new.extend(f for f in (folder, *folder.parents) if not f.exists())


def remove_new_empty() -> None:
    """Remove those of the remembered folders that are empty; other folders are never touched."""
    while _new:
        remove_if_empty(_new.pop(0))


def require_writable(folder: Path) -> None:
    """Refuse a folder that results cannot be written into, before any work. Leaves nothing behind."""
    try:
        note_missing(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigError(f"nothing can be written to {str(folder)!r}: {error.strerror}") from None
    finally:
        remove_new_empty()


def remove_if_empty(folder: Path) -> None:
    """Remove a folder if it is there and holds nothing."""
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


@contextmanager
def locked(folder: Path, option: str = "hydra.run.dir") -> Iterator[None]:
    """Keep an existing folder to this process; the system releases the lock however the process ends."""
    file = folder / LOCK
    descriptor = _acquired(file)
    if descriptor is None:
        raise ConfigError(f"{str(folder)!r} is in use by another run: wait for its end, or choose another {option}")
    try:
        yield
    finally:
        file.unlink(missing_ok=True)
        os.close(descriptor)


def _acquired(file: Path) -> int | None:
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError as error:
            sys.stderr.write(f"warning: {file} cannot be locked ({error.strerror}): let no other run use that folder\n")
            return descriptor
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), file.stat()):
                return descriptor
        os.close(descriptor)  # its owner ended between our opening and our locking it, and took the file away
