"""A sequence of documents whose objects are made when they are looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

from ragtune.core.arrays import IntArray

T = TypeVar("T")


class Entries(Sequence[T], Generic[T]):
    """Documents held as columns. Each object is made on first use, because most documents are ranked and never read.

    It equals every sequence of equal members, and travels to other processes as a list.

    Args:
        doc_ids: ids of the n documents.
        token_counts: shape (n,), tokens of each document.
        make: makes the object at a position.
    """

    def __init__(self, doc_ids: Sequence[str], token_counts: IntArray, make: Callable[[int], T]) -> None:
        self.doc_ids = doc_ids
        self._token_counts = token_counts
        self._make = make
        self._made: dict[int, T] = {}

    @property
    def token_counts(self) -> list[int]:
        """Tokens of each document."""
        counts: list[int] = self._token_counts.tolist()
        return counts

    def __len__(self) -> int:
        return len(self.doc_ids)

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

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)

    def _at(self, position: int) -> T:
        if position not in self._made:
            self._made[position] = self._make(position)
        return self._made[position]
