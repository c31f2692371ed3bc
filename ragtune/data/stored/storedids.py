"""Ids on disk that are found by their names, memory-mapped.

None is empty or holds NUL, see :func:`ragtune.data.files.values.require_id`: NumPy's bytes lose those at their end.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from ragtune.core.arrays import IntArray
from ragtune.data.stored.rows import blocks
from ragtune.data.stored.storedstrings import StoredStrings
from ragtune.data.stored.stringrows import gathered

_PREFIXES, _ORDER, _NAMES = "ids.npy", "order.npy", "names"

_PREFIX = 64
"""Bytes of an id that are kept in order for it to be found; of longer ones the rest is read."""

_AHEAD = 64
"""Ids that are remembered with one that follows the last one found: many are asked for in their order."""

_FEW = 2**15
"""Ids that are mentioned again and again, so that one text for all mentions spares memory; of more it costs time."""

_REMEMBERED = 2**10
"""Ids that are remembered at most: those at work, not all that there are."""


class Names(Protocol):
    """Ids by position."""

    def at(self, position: int) -> bytes:
        """UTF-8 of the id at a position."""

    def between(self, first: int, last: int) -> Sequence[str]:
        """The ids from one position to before another."""


class StoredIds(Mapping[str, int]):
    """Positions of n ids by their names, in the order of the positions. Memory holds the latest ones found.

    Args:
        prefixes: shape (n,), how the ids begin, in ascending order.
        order: shape (n,), their positions.
        names: the ids themselves.
        kept: shape (n,), which positions are in; None for all.
    """

    def __init__(
        self,
        prefixes: NDArray[np.bytes_],
        order: IntArray,
        names: Names,
        kept: NDArray[np.bool_] | None = None,
    ) -> None:
        self._prefixes, self.order, self._names, self._kept = prefixes, order, names, kept
        self._size = len(order) if kept is None else int(np.count_nonzero(kept))
        self._found = _Found(prefixes, order, names, kept)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[str]:
        positions = range(len(self.order)) if self._kept is None else np.flatnonzero(self._kept).tolist()
        return (self._names.at(position).decode() for position in positions)

    def __getitem__(self, name: str) -> int:
        return self._found[name]

    def in_order(self) -> Sequence[str]:
        """All ids in the order of their positions."""
        return self._names if self._kept is None and isinstance(self._names, StoredStrings) else gathered(self)

    def places(self, names: Sequence[str]) -> IntArray:
        """Positions of several ids, shape (n,), -1 of those that are not in.

        They are searched together, a hundred in a quarter of the time that they take one by one, and not remembered.
        """
        found = np.full(len(names), -1, dtype=np.intp)
        for some in blocks(len(names)) if len(self.order) else ():
            found[some] = self._searched_together(names[some])
        return found

    def _searched_together(self, names: Sequence[str]) -> IntArray:
        strings = names if isinstance(names, StoredStrings) else StoredStrings.of(names)
        wanted, lengths = strings.prefixes(_PREFIX)
        places = np.minimum(np.searchsorted(self._prefixes, wanted), len(self.order) - 1)
        there = self._prefixes[places]
        # NumPy takes bytes that differ by NUL at their end for equal, so that their lengths are looked at as well.
        is_in = (there == wanted) & (np.strings.str_len(there) == lengths)
        found: IntArray = np.where(is_in, self.order[places], -1)
        if self._kept is not None:
            found[~self._kept[found]] = -1
        for i in np.flatnonzero(lengths >= _PREFIX).tolist():
            found[i] = self.get(names[i], -1)
        return found

    def at_places(self, places: IntArray) -> list[str]:
        """The ids at some places in their own order, in which :attr:`order` gives their positions."""
        found: list[bytes] = self._prefixes[places].tolist()
        if self._prefixes.itemsize == _PREFIX and _PREFIX in map(len, found):
            names = [self._names.at(position).decode() for position in self.order[places].tolist()]
        else:
            names = b"\0".join(found).decode().split("\0") if found else []
        return list(map(sys.intern, names)) if len(self.order) <= _FEW else names

    def only(self, names: Iterable[str]) -> Self:
        """Those of the ids that are among some names, at their positions."""
        kept = np.zeros(len(self.order), dtype=np.bool_)
        kept[np.fromiter((found for found in map(self.get, names) if found is not None), np.intp)] = True
        return type(self)(self._prefixes, self.order, self._names, kept)

    @classmethod
    def load(cls, folder: Path, names: Names | None = None) -> Self:
        """The ids that :meth:`save` has written into a folder, or those that :meth:`index` has been given."""
        prefixes, order = (np.asarray(np.load(folder / name, mmap_mode="r")) for name in (_PREFIXES, _ORDER))
        return cls(prefixes, order, names or StoredStrings.load(folder, _NAMES))

    @classmethod
    def save(cls, names: StoredStrings, folder: Path) -> int | None:
        """Write ids into a folder; returned is as of :meth:`index`."""
        names.save(folder, _NAMES)
        return cls.index(len(names), names.at, max(names.longest(), 1), folder)

    @staticmethod
    def index(count: int, read: Callable[[int], bytes], longest: int, folder: Path) -> int | None:
        """Write into a folder what finds ids that are kept elsewhere.

        Args:
            count: number of ids.
            read: UTF-8 of the id at a position.
            longest: bytes of the longest one.
            folder: where to.

        Returns:
            The first position whose id another one before it has, in which case nothing is written; None if there is
            none.
        """
        prefixes = np.fromiter((read(i)[:_PREFIX] for i in range(count)), f"S{min(longest, _PREFIX)}", count)
        order = np.argsort(prefixes, kind="stable")
        prefixes = prefixes[order]
        for start, end in _alike(prefixes) if longest >= _PREFIX else ():
            order[start:end] = sorted(order[start:end], key=read)
        same = np.flatnonzero(prefixes[1:] == prefixes[:-1])
        if twice := [i for i in same if longest < _PREFIX or read(order[i]) == read(order[i + 1])]:
            return int(min(order[i + 1] for i in twice))
        np.save(folder / _PREFIXES, prefixes)
        np.save(folder / _ORDER, order)
        return None


class _Found(dict[str, int]):
    """Positions that are looked up when they are first asked for; all are forgotten once there are too many.

    It does not know the :class:`StoredIds` that has it: then these are let go, and their files closed, at once.
    """

    def __init__(
        self,
        prefixes: NDArray[np.bytes_],
        order: IntArray,
        names: Names,
        kept: NDArray[np.bool_] | None,
    ) -> None:
        self._prefixes, self._order, self._names, self._kept = prefixes, order, names, kept
        self._next = 0

    def __missing__(self, name: str) -> int:
        found = self._look_up(name)
        position = found[name]
        if len(self) >= _REMEMBERED:
            self.clear()
        self.update(found)
        return position

    def _look_up(self, name: str) -> dict[str, int]:
        """The id with its position, and others that are likely to be asked for next; nothing if it is not there."""
        if not isinstance(name, str):  # anything may be asked for by `in`
            return {}
        wanted, kept = name.encode(errors="surrogatepass"), self._kept
        position = self._next
        if position < len(self._order) and self._names.at(position) == wanted:
            last = min(position + _AHEAD, len(self._order))
            found = dict(zip(self._names.between(position, last), range(position, last), strict=True))
        elif (searched := self._searched(wanted)) is not None:
            found, last = {name: searched}, searched + 1
        else:
            return {}
        self._next = last
        return found if kept is None else {name: i for name, i in found.items() if kept[i]}

    def _searched(self, wanted: bytes) -> int | None:
        prefix = wanted[:_PREFIX]
        place = bisect_left(self._prefixes, prefix)  # for a single id quicker than NumPy's own
        if len(wanted) >= _PREFIX:
            last = bisect_right(self._prefixes, prefix, place)
            place = bisect_left(range(last), wanted, place, key=self._id_at)
            return int(self._order[place]) if place < last and self._id_at(place) == wanted else None
        is_there = place < len(self._order) and self._prefixes[place] == wanted
        return int(self._order[place]) if is_there else None

    def _id_at(self, place: int) -> bytes:
        """The whole id at a place in the order of ids."""
        return self._names.at(int(self._order[place]))


def _alike(prefixes: NDArray[Any]) -> Iterator[tuple[int, int]]:
    """Where runs of equal prefixes begin and end."""
    borders = np.flatnonzero(np.concatenate(([True], prefixes[1:] != prefixes[:-1], [True])))
    lengths = np.diff(borders)
    return zip(borders[:-1][lengths > 1], borders[1:][lengths > 1], strict=True)
