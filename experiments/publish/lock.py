"""One process at a time in a folder."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ragtune.core.errors import ConfigError

LOCK = ".lock"
"""The file, in a folder in use, that its owner holds a lock on; gone when the owner has ended in peace."""


@contextmanager
def locked(folder: Path, option: str = "hydra.run.dir") -> Iterator[None]:
    """Have a folder that is there to oneself.

    The system takes the lock back however its owner ends, so what a killed one leaves behind stops nobody. On a file
    system without locks a warning says so.

    Args:
        folder: whose.
        option: chooses another one, for the message.

    Raises:
        ConfigError: if another process, or another part of this one, has it; nothing in it has been touched.
    """
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
        if is_still(descriptor, file):
            return descriptor
        os.close(descriptor)  # its owner ended between our opening and our locking it, and took the file away


def is_still(descriptor: int, path: Path) -> bool:
    """Whether an open file or folder is the one that is at ``path`` now."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
