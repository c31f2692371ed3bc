"""Sequences whose members are made when they are looked at."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Generic, TypeVar, overload

T = TypeVar("T")


class Entries(Sequence[T], Generic[T]):
    """Objects that are held as columns until they are looked at; each is made once.

    Most documents of a request are ranked and never read. It equals every sequence of equal members.

    Args:
        made: the members, None where one is still to be made.
        make: makes the member at a position.
    """

    def __init__(self, made: Iterable[T | None], make: Callable[[int], T] | None = None) -> None:
        self._made = list(made)
        self._makers = [(0, make)]

    def __len__(self) -> int:
        return len(self._made)

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...

    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        if isinstance(index, slice):
            return [self._at(i) for i in range(*index.indices(len(self)))]
        return self._at(range(len(self))[index])

    def __iter__(self) -> Iterator[T]:
        return map(self._at, range(len(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))

    def joined(self, others: Entries[T]) -> Entries[T]:
        """These and further ones behind."""
        both = Entries([*self._made, *others._made])
        both._makers = [*self._makers, *((len(self) + start, make) for start, make in others._makers)]
        return both

    def _at(self, position: int) -> T:
        member = self._made[position]
        if member is None:
            start, make = self._makers[bisect_right(self._makers, position, key=itemgetter(0)) - 1]
            if make is None:
                raise IndexError(f"there is no member at {position}")
            member = self._made[position] = make(position - start)
        return member
