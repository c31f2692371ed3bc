"""Rows of numbers of which there may be more than memory should hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from ragtune.core.arrays import IntArray

_ROOM = 2**20
"""Bytes that are held of each array: more than there are in a run over a usual test collection."""

_BLOCK = 2**16
"""Rows that are copied at once."""


class NoPlaceError(OSError):
    """Rows have no place in the folder that the error names, e.g. because its disk is full."""


@contextmanager
def _place(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise NoPlaceError(error.errno, error.strerror, str(folder)) from error


class Rows:
    """Rows of numbers, added block by block: the first are held, and once there are many all are in a file.

    Args:
        folder: where the file is, which has no name; None to hold everything.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._held: list[NDArray[Any]] = []
        self._room = _ROOM
        self._file: IO[bytes] | None = None
        self._length = 0

    def extend(self, rows: NDArray[Any]) -> None:
        """Add rows, of the shape and kind of those that are there.

        Raises:
            NoPlaceError: if they have none in the folder.
        """
        self._held.append(rows)
        self._length += len(rows)
        self._room -= rows.nbytes
        if self._room < 0 and self._folder is not None:
            with _place(self._folder):
                self._flush(self._folder)

    def whole(self, *, to_change: bool = False) -> NDArray[Any]:
        """All rows, of which there has been at least one block; those in a file are mapped from there.

        Args:
            to_change: whether they may be changed, which not every file system lets a mapped file be.

        Raises:
            NoPlaceError: as of :meth:`extend`.
        """
        if self._file is None or self._folder is None:
            self._held = [np.concatenate(self._held)]
            return self._held[0]
        shape, kind = (self._length, *self._held[0].shape[1:]), self._held[0].dtype
        mode: Literal["r+", "r"] = "r+" if to_change else "r"
        with _place(self._folder):
            self._file.flush()
            return np.asarray(np.memmap(self._file, kind, mode, shape=shape)) if self._length else np.empty(shape, kind)

    def _flush(self, folder: Path) -> None:
        if self._file is None:
            self._file = TemporaryFile(dir=folder)  # noqa: SIM115 - it lasts as long as the rows
        for rows in self._held:
            self._file.write(np.ascontiguousarray(rows).data.cast("B") if rows.size else b"")
        self._held = [np.empty_like(self._held[-1][:0])]


def blocks(length: int) -> Iterator[slice]:
    """So many rows, some at a time: what is made of them need not be there for all at once."""
    return (slice(start, start + _BLOCK) for start in range(0, length, _BLOCK))


def taken(source: NDArray[Any], places: IntArray, folder: Path | None, *, to_change: bool = False) -> NDArray[Any]:
    """The rows at some places, made some at a time: a file holds them once there are many, see :class:`Rows`."""
    rows = Rows(folder)
    for some in (slice(0, 0), *blocks(len(places))):
        rows.extend(source[places[some]])
    return rows.whole(to_change=to_change)
