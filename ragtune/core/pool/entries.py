"""The items of a pool as they joined it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import overload

from ragtune.core.pool.items import PoolItem


class Entries(Sequence[PoolItem]):
    """Items in the pool's order; those that came as columns are made when they are looked at, once.

    Args:
        made: the items, None where one is still to be made.
        make: makes the item at a position.
    """

    def __init__(self, made: Iterable[PoolItem | None], make: Callable[[int], PoolItem]) -> None:
        self._made = list(made)
        self._make = make

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

    def joined(self, new: Iterable[PoolItem]) -> Entries:
        """These and further ones behind."""
        return Entries([*self._made, *new], self._make)

    def _at(self, position: int) -> PoolItem:
        item = self._made[position]
        if item is None:
            item = self._made[position] = self._make(position)
        return item
