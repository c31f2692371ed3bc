"""Strings on disk, memory-mapped, and the positions of ids among them."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self, overload
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from ragtune.core.arrays import IntArray

_BLOCK = 2**13
"""Strings that are read at once."""


class StringWriter:
    """Writes strings into two files, one after the other, and holds only where each ends (8 bytes)."""

    def __init__(self, folder: Path, name: str, stack: ExitStack) -> None:
        self._ends = array("q", [0])
        self._path = folder / name
        self._file = stack.enter_context(self._path.with_suffix(".utf8").open("wb"))

    def add(self, string: str) -> None:
        """Append a string."""
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


_HASHES, _ORDER = "hashes.npy", "order.npy"


class IdIndex:
    """Finds the position of an id by its CRC-32; ids with the same hash are told apart by their text."""

    def __init__(self, folder: Path, ids: StoredStrings) -> None:
        self._hashes, self._order = (np.asarray(np.load(folder / name, mmap_mode="r")) for name in (_HASHES, _ORDER))
        self._ids = ids

    @staticmethod
    def write(ids: StoredStrings, folder: Path) -> int | None:
        """Write the index of ids into a folder."""
        hashes = _hashes(ids)
        order = np.argsort(hashes, kind="stable")
        hashes = hashes[order]
        np.save(folder / _HASHES, hashes)
        np.save(folder / _ORDER, order)
        return min(_repeated(ids, hashes, order), default=None)

    def get(self, name: object) -> int | None:
        """The position of an id; None if there is none."""
        found = int(self.positions([name])[0]) if isinstance(name, str) else -1
        return None if found < 0 else found

    def positions(self, names: Sequence[str]) -> IntArray:
        """Positions of several ids, shape (n,), -1 for an unknown one."""
        found = np.full(len(names), -1, dtype=np.intp)
        wanted = _hashes(names)
        places = self._hashes.searchsorted(wanted)
        left = np.arange(len(names))
        while len(left := left[places[left] < len(self._hashes)]):
            left = left[self._hashes[places[left]] == wanted[left]]
            positions = self._order[places[left]]
            same = np.fromiter(map(str.__eq__, self._ids.at(positions), (names[i] for i in left.tolist())), bool)
            found[left[same]] = positions[same]
            left = left[~same]
            places[left] += 1
        return found


def _hashes(names: Sequence[str]) -> NDArray[np.uint32]:
    return np.fromiter((crc32(name.encode(errors="surrogatepass")) for name in names), np.uint32, len(names))


def _repeated(ids: StoredStrings, hashes: NDArray[np.uint32], order: IntArray) -> Iterator[int]:
    """Positions whose id an earlier position has too. Positions with the same hash follow one another, ascending."""
    seen: set[str] = set()
    last = None
    for place in np.flatnonzero(hashes[1:] == hashes[:-1]).tolist():
        if hashes[place] != last:
            seen, last = {ids[order[place]]}, hashes[place]
        name = ids[order[place + 1]]
        if name in seen:
            yield int(order[place + 1])
        seen.add(name)
