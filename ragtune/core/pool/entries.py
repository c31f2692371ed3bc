"""The items of a pool as they joined it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import overload

from ragtune.core.pool.items import PoolItem


class Entries(Sequence[PoolItem]):
    """Items in the pool's order; those that came as columns are made when they are looked at, once.

    Args:
        made: the items, None where one is still to be made.
        make: makes the item at a position.
    """

    def __init__(self, made: Iterable[PoolItem | None], make: Callable[[int], PoolItem] | None = None) -> None:
        self._made = list(made)
        self._makers = [(0, make)]

    def __len__(self) -> int:
        return len(self._made)

    @overload
    def __getitem__(self, index: int) -> PoolItem: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[PoolItem]: ...

    def __getitem__(self, index: int | slice) -> PoolItem | Sequence[PoolItem]:
        if isinstance(index, slice):
            return [self._at(i) for i in range(*index.indices(len(self)))]
        return self._at(range(len(self))[index])

    def __iter__(self) -> Iterator[PoolItem]:
        return map(self._at, range(len(self)))

    def joined(self, others: Entries) -> Entries:
        """These and further ones behind."""
        both = Entries([*self._made, *others._made])
        both._makers = [*self._makers, *((len(self) + start, make) for start, make in others._makers)]
        return both

    def _at(self, position: int) -> PoolItem:
        item = self._made[position]
        if item is None:
            start, make = self._makers[bisect_right(self._makers, position, key=itemgetter(0)) - 1]
            if make is None:
                raise IndexError(f"there is no item at {position}")
            item = self._made[position] = make(position - start)
        return item
