"""What large files say of queries, on disk and memory-mapped, so that memory does not grow with their number."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self, TypeVar

from ragtune.data.caches.diskcache import DiskCache
from ragtune.data.files.filedigest import file_digests
from ragtune.data.stored.storedids import StoredIds

T = TypeVar("T")

STORED_FROM = 2**20
"""Bytes of files from which on what they hold is copied to the cache and mapped from there: they are parsed once."""

_FORMAT = 1
"""Counts the changes of what is kept, so that another version's is neither taken for damaged nor for this one's."""


class Stored(Mapping[str, T]):
    """A value of each query, read when it is asked for. Elsewhere than in this process it is a plain dictionary.

    Args:
        ids: the queries, at the positions of their values.
    """

    def __init__(self, ids: StoredIds) -> None:
        self._ids = ids

    @abstractmethod
    def _at(self, position: int) -> T: ...

    @abstractmethod
    def only(self, query_ids: Iterable[str]) -> Self:
        """Some of them, in the same order; those that it lacks are passed over."""

    @staticmethod
    @abstractmethod
    def save(values: Iterable[tuple[str, T]], folder: Path) -> None:
        """Write queries and their values into an empty folder, some at a time.

        Raises:
            TwiceError: if a query comes twice.
        """

    @classmethod
    @abstractmethod
    def load(cls, folder: Path) -> Self:
        """What :meth:`save` has written."""

    def __getitem__(self, query_id: str) -> T:
        return self._at(self._ids[query_id])

    def __contains__(self, query_id: object) -> bool:
        return query_id in self._ids

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


def are_large(files: Sequence[Path]) -> bool:
    """Whether what files hold is kept in the cache."""
    return sum(file.stat().st_size for file in files) >= STORED_FROM


class TwiceError(ValueError):
    """A query comes twice."""


def stored(
    kind: type[Stored[T]],
    files: Sequence[Path],
    key: Any,
    read: Callable[[], Mapping[str, T]],
    in_turn: Callable[[], Iterable[tuple[str, T]]],
) -> Mapping[str, T]:
    """What files say of queries: read into memory, or mapped from the cache where they are large.

    Args:
        kind: how it is kept.
        files: what is read.
        key: everything else that it depends on, plain data.
        read: reads the files.
        in_turn: reads a query after the other, and holds none; where one comes twice, ``read`` has the last word.
    """
    if not are_large(files):
        return read()

    def build() -> Stored[T] | None:
        return None

    def save(_: object, folder: Path) -> None:
        try:
            kind.save(in_turn(), folder)
        except TwiceError:
            kind.save(read().items(), folder)

    name = json.dumps([kind.__name__, _FORMAT, key, *file_digests(files)])
    found = DiskCache("queries").fetch(name, build, save, kind.load, is_mapped=True)
    return read() if found is None else found


def set_aside(kind: type[Stored[T]], values: Iterable[tuple[str, T]]) -> Stored[T]:
    """Queries and their values in files that are gone with them."""
    with TemporaryDirectory(prefix="ragtune-queries-", ignore_cleanup_errors=True) as folder:
        kind.save(values, Path(folder))
        return kind.load(Path(folder))


def some(values: Mapping[str, T], query_ids: Iterable[str]) -> Mapping[str, T]:
    """The values of some queries, in the order that they have; queries without one are passed over."""
    if isinstance(values, Stored):
        return values.only(query_ids)
    wanted = frozenset(query_ids)
    return {query_id: value for query_id, value in values.items() if query_id in wanted}
