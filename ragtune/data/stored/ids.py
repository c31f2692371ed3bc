"""Positions of ids on disk by their names, memory-mapped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from ragtune.core.arrays import IntArray
from ragtune.data.stored.strings import StoredStrings

_HASHES, _ORDER = "hashes.npy", "order.npy"


class IdIndex:
    """Finds the position of an id by its CRC-32; ids with the same hash are told apart by their text.

    Args:
        folder: where :meth:`write` has written.
        ids: the n ids.
    """

    def __init__(self, folder: Path, ids: StoredStrings) -> None:
        self._hashes, self._order = (np.asarray(np.load(folder / name, mmap_mode="r")) for name in (_HASHES, _ORDER))
        self._ids = ids

    @staticmethod
    def write(ids: StoredStrings, folder: Path) -> int | None:
        """Write the index of ids into a folder.

        Returns:
            The first position whose id an earlier position has too; None if the ids are unique.
        """
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
