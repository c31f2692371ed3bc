"""Files that are whole or missing, and columns of numbers that go to a file once they take much memory."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
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


def let_go(*columns: NDArray[Any]) -> None:
    """Give back the memory of rows that are mapped; their file is read again where they are needed again."""
    for column in columns:
        pages = getattr(column.base, "_mmap", None)
        if pages is not None and hasattr(mmap, "MADV_DONTNEED"):
            pages.madvise(mmap.MADV_DONTNEED)


_ROOM = 2**20
"""Bytes of each array that are held: more than a run over a usual test collection has."""


class Rows:
    """Rows of numbers, added block by block. The first are held; once there are many, all are in a file."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._held: list[NDArray[Any]] = []
        self._room = _ROOM
        self._file: IO[bytes] | None = None
        self._length = 0

    def extend(self, rows: NDArray[Any]) -> None:
        self._held.append(rows)
        self._length += len(rows)
        self._room -= rows.nbytes
        if self._room < 0 and self._folder is not None:
            with naming(self._folder):
                self._flush(self._folder)

    def whole(self) -> NDArray[Any]:
        """Return all rows, of which there has been at least one block; those in a file are mapped."""
        if self._file is None or self._folder is None:
            self._held = [np.concatenate(self._held)]
            return self._held[0]
        shape, kind = (self._length, *self._held[0].shape[1:]), self._held[0].dtype
        with naming(self._folder):
            self._file.flush()
            return np.asarray(np.memmap(self._file, kind, "r", shape=shape)) if self._length else np.empty(shape, kind)

    def _flush(self, folder: Path) -> None:
        if self._file is None:
            self._file = TemporaryFile(dir=folder)  # noqa: SIM115 - it lasts as long as the rows
        for rows in self._held:
            self._file.write(np.ascontiguousarray(rows).data.cast("B") if rows.size else b"")
        self._held = [np.empty_like(self._held[-1][:0])]
