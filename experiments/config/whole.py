"""Files that are whole or missing, and errors of a full disk that name the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole(file: Path, mark: str = "") -> Iterator[Path]:
    """Yield a path beside ``file`` to write to; what is there at the end of the block becomes ``file``.

    Args:
        file: the file to write or to replace.
        mark: tells apart what several processes write for the same file.

    Raises:
        OSError: naming ``file`` if there is no room; ``file`` is then as it was.
    """
    beside = file.with_name(f".{file.name}{mark}")
    with naming(file):
        try:
            yield beside
            beside.replace(file)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise


@contextmanager
def naming(file: Path) -> Iterator[None]:
    """Have an error of the system name the file; where the disk is full, Python names none."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(file)
        raise
