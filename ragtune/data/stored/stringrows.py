"""Strings of which there may be more than memory should hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np

from ragtune.core.arrays import IntArray
from ragtune.data.stored.rows import Rows, blocks
from ragtune.data.stored.storedstrings import StoredStrings

_AT_ONCE = 2**13
"""Strings, or what comes with them, that are encoded at once."""

T = TypeVar("T")


class StringRows:
    """Strings, added some at a time: the first are held, and once there are many all are in files.

    Args:
        folder: where the files are, which have no names; None to hold everything, as UTF-8.
    """

    def __init__(self, folder: Path | None) -> None:
        self._letters, self._ends = Rows(folder), Rows(folder)
        self._end = 0
        self._letters.extend(np.zeros(0, dtype=np.uint8))
        self._ends.extend(np.zeros(1, dtype=np.intp))

    def extend(self, strings: Iterable[str]) -> None:
        """Add strings.

        Raises:
            NoPlaceError: if they have none in the folder.
        """
        for some in some_at_once(map(str.encode, strings)):
            ends = self._end + np.cumsum(list(map(len, some)))
            self._letters.extend(np.frombuffer(b"".join(some), dtype=np.uint8))
            self._ends.extend(ends)
            self._end = int(ends[-1])

    def whole(self) -> StoredStrings:
        """All strings.

        Raises:
            NoPlaceError: as of :meth:`extend`.
        """
        return StoredStrings(self._letters.whole(), self._ends.whole())


def some_at_once(values: Iterable[T]) -> Iterator[list[T]]:
    """The values, so many at a time that they are quick to write."""
    rest = iter(values)
    return iter(lambda: list(islice(rest, _AT_ONCE)), [])


def gathered(strings: Iterable[str], folder: Path | None = None) -> StoredStrings:
    """Strings as what takes little memory, see :class:`StringRows`."""
    rows = StringRows(folder)
    rows.extend(strings)
    return rows.whole()


def strings_at(source: Sequence[str], places: IntArray, folder: Path | None) -> StoredStrings:
    """The strings at some places, made some at a time."""
    return gathered((source[place] for some in blocks(len(places)) for place in places[some].tolist()), folder)
