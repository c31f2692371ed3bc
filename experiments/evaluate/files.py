"""Files that are whole or missing, and columns of numbers in files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile, gettempdir
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray


@contextmanager
def whole(file: Path, mark: str = "") -> Iterator[Path]:
    """Yield a path beside ``file`` to write to; what is there at the end of the block becomes ``file``."""
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


class Rows:
    """Rows of numbers in a file, added block by block, so that many of them take no memory."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder or Path(gettempdir())
        self._file: IO[bytes] = TemporaryFile(dir=folder)  # noqa: SIM115 - it lasts as long as the rows
        self._length = 0
        self._row: NDArray[Any] = np.empty(0)

    def extend(self, rows: NDArray[Any]) -> None:
        with naming(self._folder):
            self._file.write(np.ascontiguousarray(rows).data.cast("B") if rows.size else b"")
        self._length += len(rows)
        self._row = np.empty_like(rows[:0])

    def whole(self) -> NDArray[Any]:
        """Return all rows, of which there has been at least one block; their memory is mapped."""
        shape, kind = (self._length, *self._row.shape[1:]), self._row.dtype
        with naming(self._folder):
            self._file.flush()
        return np.asarray(np.memmap(self._file, kind, "r", shape=shape)) if self._length else np.empty(shape, kind)
