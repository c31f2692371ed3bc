"""Strings on disk, memory-mapped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from operator import eq
from pathlib import Path
from typing import Any, Self, overload

import numpy as np
from numpy.typing import NDArray

from ragtune.core.arrays import IntArray
from ragtune.data.stored.rows import blocks


class StoredStrings(Sequence[str]):
    """Strings by position, as the UTF-8 of all of them: in an array, a single long one would widen every other.

    A slice of them is a view, unless it has a step. They equal any sequence of the same strings.

    Args:
        letters: UTF-8 of the n strings, one behind the other.
        ends: shape (n + 1,), where each begins, and where the last one ends.
    """

    def __init__(self, letters: NDArray[np.uint8], ends: IntArray) -> None:
        self._letters, self._ends = letters, ends

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> StoredStrings: ...
    def __getitem__(self, place: int | slice) -> str | StoredStrings:
        if not isinstance(place, slice):
            return self.at(range(len(self))[place]).decode()
        start, stop, step = place.indices(len(self))
        if step != 1:
            return StoredStrings.of(self[i] for i in range(start, stop, step))
        return StoredStrings(self._letters, self._ends[start : max(start, stop) + 1])

    def __iter__(self) -> Iterator[str]:
        for some in blocks(len(self)):
            yield from self.between(some.start, min(some.stop, len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))

    def __reduce__(self) -> tuple[Any, ...]:
        begin, end = self._ends[0], self._ends[-1]  # a view travels without what it does not show
        return type(self), (self._letters[begin:end], self._ends - begin)

    @classmethod
    def of(cls, strings: Iterable[str]) -> Self:
        """The strings, which may hold halves of characters."""
        parts = [string.encode(errors="surrogatepass") for string in strings]
        return cls(np.frombuffer(b"".join(parts), dtype=np.uint8), np.cumsum([0, *map(len, parts)]))

    def prefixes(self, most: int) -> tuple[NDArray[np.bytes_], IntArray]:
        """Shapes (n,): the first ``most`` bytes of each, and how many each has in all."""
        lengths = np.diff(self._ends)
        shown = np.minimum(lengths, most)
        places = np.arange(max(shown.max(initial=0), 1))
        rows = np.zeros((len(lengths), len(places)), dtype=np.uint8)
        letters = self._letters[self._ends[0] : self._ends[-1]]
        if (lengths > most).any():
            starts = np.repeat(self._ends[:-1] - self._ends[0], lengths)
            letters = letters[np.arange(len(letters)) - starts < most]
        rows[places < shown[:, None]] = letters
        return rows.view(f"S{len(places)}")[:, 0], lengths

    def at(self, position: int) -> bytes:
        """UTF-8 of one of them."""
        return self._letters.data[self._ends.item(position) : self._ends.item(position + 1)].tobytes()

    def between(self, first: int, last: int) -> list[str]:
        """Those from one position to before another."""
        ends = self._ends[first : last + 1].tolist()
        first = ends[0]
        whole = self._letters.data[first : ends[-1]].tobytes()
        text = whole.decode()
        if len(text) == len(whole):
            return [text[begin - first : end - first] for begin, end in pairwise(ends)]
        return [whole[begin - first : end - first].decode() for begin, end in pairwise(ends)]

    def longest(self) -> int:
        """Bytes of the longest one, 0 where there is none."""
        lengths = (np.diff(self._ends[some.start : some.stop + 1]) for some in blocks(len(self)))
        return max((int(some.max()) for some in lengths), default=0)

    def save(self, folder: Path, name: str) -> None:
        """Write all that they have been made of, of which they are no slice, into a folder, in files of that name."""
        np.save(folder / f"{name}.npy", self._letters)
        np.save(folder / f"{name}_ends.npy", self._ends)

    @classmethod
    def load(cls, folder: Path, name: str) -> Self:
        """The strings that :meth:`save` has written."""
        return cls(*(np.asarray(np.load(folder / f"{name}{part}.npy", mmap_mode="r")) for part in ("", "_ends")))
