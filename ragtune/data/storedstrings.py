"""Strings on disk, memory-mapped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise, repeat
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ragtune.core.arrays import IntArray


class StoredStrings:
    """Strings by position, as the UTF-8 of all of them: in an array, a single long one would widen every other.

    Args:
        letters: UTF-8 of the n strings, one behind the other.
        ends: shape (n + 1,), where each begins, and where the last one ends.
    """

    def __init__(self, letters: NDArray[np.uint8], ends: IntArray) -> None:
        self._letters, self._ends = letters, ends

    def __len__(self) -> int:
        return len(self._ends) - 1

    def at(self, position: int) -> bytes:
        """UTF-8 of one of them."""
        return self._letters.data[self._ends.item(position) : self._ends.item(position + 1)].tobytes()

    def between(self, first: int, last: int) -> list[str]:
        """Those from one position to before another."""
        ends = self._ends[first : last + 1].tolist()
        whole = self._letters.data[ends[0] : ends[-1]].tobytes()
        return [whole[begin - ends[0] : end - ends[0]].decode() for begin, end in pairwise(ends)]

    def read(self, positions: NDArray[np.integer[Any]]) -> Iterator[str]:
        """Several of them."""
        places = map(slice, self._ends[positions].tolist(), self._ends[positions + 1].tolist())
        return map(str, map(self._letters.data.__getitem__, places), repeat("utf-8"))

    @staticmethod
    def save(strings: Iterable[str], folder: Path, name: str) -> None:
        """Write strings into a folder, in files of that name."""
        parts = [string.encode() for string in strings]
        np.save(folder / f"{name}.npy", np.frombuffer(b"".join(parts), dtype=np.uint8))
        np.save(folder / f"{name}_ends.npy", np.cumsum([0, *map(len, parts)]))

    @classmethod
    def load(cls, folder: Path, name: str) -> Self:
        """The strings that :meth:`save` has written."""
        return cls(*(np.asarray(np.load(folder / f"{name}{part}.npy", mmap_mode="r")) for part in ("", "_ends")))
