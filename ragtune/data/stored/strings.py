"""Strings on disk, memory-mapped."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self, overload

import numpy as np
from numpy.typing import NDArray

from ragtune.core.arrays import IntArray

_BLOCK = 2**13
"""Strings that are read at once."""


class StringWriter:
    """Writes strings into two files, one after the other, and holds only where each ends (8 bytes).

    Args:
        folder: the folder of both files.
        name: how the names of both files begin.
        stack: closes the file of texts.
    """

    def __init__(self, folder: Path, name: str, stack: ExitStack) -> None:
        self._ends = array("q", [0])
        self._path = folder / name
        self._file = stack.enter_context(self._path.with_suffix(".utf8").open("wb"))

    def add(self, string: str) -> None:
        """Append a string.

        Raises:
            OSError: if the disk is full.
        """
        self._ends.append(self._ends[-1] + self._file.write(string.encode()))

    def finish(self) -> None:
        """Write where the strings end. The stack must be closed before they are read."""
        np.save(self._path.with_suffix(".npy"), np.frombuffer(self._ends, dtype=np.int64))


class StoredStrings(Sequence[str]):
    """Strings by position. Memory holds those that were asked for; a slice is a list.

    Args:
        letters: UTF-8 of the n strings, one after the other.
        ends: shape (n + 1,), where each begins, and where the last one ends.
    """

    def __init__(self, letters: NDArray[np.uint8], ends: IntArray) -> None:
        self._letters, self._ends = letters.data, ends

    @classmethod
    def load(cls, folder: Path, name: str) -> Self:
        """Map the files that a :class:`StringWriter` has written."""
        ends = np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r"))
        file = folder / f"{name}.utf8"
        if ends[-1] != file.stat().st_size:
            raise ValueError(f"{file.name} has another size than {name}.npy says")
        letters = np.memmap(file, np.uint8, "r") if ends[-1] else np.empty(0, np.uint8)
        return cls(np.asarray(letters), ends)

    @staticmethod
    def save(strings: Iterable[str], folder: Path, name: str) -> None:
        """Write strings, see :class:`StringWriter`."""
        with ExitStack() as stack:
            writer = StringWriter(folder, name, stack)
            for string in strings:
                writer.add(string)
            writer.finish()

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        places = range(len(self))[place]
        if isinstance(places, int):
            return str(self._letters[self._ends.item(places) : self._ends.item(places + 1)], "utf-8")
        return self.at(np.arange(places.start, places.stop, places.step))

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _BLOCK):
            yield from self[start : start + _BLOCK]

    def at(self, positions: NDArray[np.integer[Any]]) -> list[str]:
        """The strings at some positions, shape (k,)."""
        letters = self._letters
        bounds = zip(self._ends[positions].tolist(), self._ends[positions + 1].tolist(), strict=True)
        return [str(letters[begin:end], "utf-8") for begin, end in bounds]
