"""Queries and judgments of large files on disk, memory-mapped, so that memory does not grow with their number."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ragtune.core.arrays import IntArray
from ragtune.data.diskcache import DiskCache
from ragtune.data.filedigest import file_digests
from ragtune.data.recent import Recent
from ragtune.data.storedids import StoredIds
from ragtune.data.storedstrings import StoredStrings

T = TypeVar("T")

STORED_FROM = 2**20
"""Bytes of files from which on what they hold is copied to the cache and mapped from there: they are parsed once."""

_AT_WORK = 2**10
"""Queries whose grades are remembered: a measure looks at them more than once."""

_FORMAT = 1
"""Counts the changes of what is kept, so that another version's is neither taken for damaged nor for this one's."""

_TEXTS, _DOCUMENTS, _ENDS, _GRADES = "texts", "documents", "ends.npy", "grades.npy"


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
    def save(values: Mapping[str, T], folder: Path) -> None:
        """Write values by query into an empty folder."""

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


class StoredQueries(Stored[str]):
    """Texts of queries; their ids, which many look through, are made once and kept.

    Args:
        ids: the queries.
        texts: at their positions.
    """

    def __init__(self, ids: StoredIds, texts: StoredStrings) -> None:
        super().__init__(ids)
        self._texts = texts

    def _at(self, position: int) -> str:
        return self._texts.at(position).decode()

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    @cached_property
    def _names(self) -> list[str]:
        return list(self._ids)

    def only(self, query_ids: Iterable[str]) -> Self:
        return type(self)(self._ids.only(query_ids), self._texts)

    @staticmethod
    def save(values: Mapping[str, str], folder: Path) -> None:
        StoredIds.save(list(values), folder)
        StoredStrings.save(values.values(), folder, _TEXTS)

    @classmethod
    def load(cls, folder: Path) -> Self:
        return cls(StoredIds.load(folder), StoredStrings.load(folder, _TEXTS))


class StoredQrels(Stored[Mapping[str, int]]):
    """Grades of the documents of each query, in the order in which they were given.

    Args:
        ids: the q queries.
        ends: shape (q + 1,), where the judgments of each begin, and where the last ones end.
        documents: ids of the documents of each, with a space in between, which no id holds.
        grades: shape (judgments,).
    """

    def __init__(self, ids: StoredIds, ends: IntArray, documents: StoredStrings, grades: NDArray[np.int32]) -> None:
        super().__init__(ids)
        self._ends, self._documents, self._grades = ends, documents, grades
        self._recent: Recent[str, Mapping[str, int]] = Recent(lambda q: {q: self._at(ids[q])}, _AT_WORK)

    def __getitem__(self, query_id: str) -> Mapping[str, int]:
        return self._recent[query_id]

    def _at(self, position: int) -> dict[str, int]:
        begin, end = self._ends.item(position), self._ends.item(position + 1)
        doc_ids = self._documents.at(position).decode().split(" ")
        return dict(zip(doc_ids, self._grades[begin:end].tolist(), strict=True))

    def only(self, query_ids: Iterable[str]) -> Self:
        return type(self)(self._ids.only(query_ids), self._ends, self._documents, self._grades)

    @staticmethod
    def save(values: Mapping[str, Mapping[str, int]], folder: Path) -> None:
        StoredIds.save(list(values), folder)
        StoredStrings.save(map(" ".join, values.values()), folder, _DOCUMENTS)
        np.save(folder / _ENDS, np.cumsum([0, *map(len, values.values())]))
        grades = chain.from_iterable(each.values() for each in values.values())
        np.save(folder / _GRADES, np.fromiter(grades, np.int32))

    @classmethod
    def load(cls, folder: Path) -> Self:
        ends, grades = (np.asarray(np.load(folder / name, mmap_mode="r")) for name in (_ENDS, _GRADES))
        return cls(StoredIds.load(folder), ends, StoredStrings.load(folder, _DOCUMENTS), grades)


def are_large(files: Sequence[Path]) -> bool:
    """Whether what files hold is kept in the cache."""
    return sum(file.stat().st_size for file in files) >= STORED_FROM


def stored(
    kind: type[Stored[T]], files: Sequence[Path], key: Any, read: Callable[[], Mapping[str, T]]
) -> Mapping[str, T]:
    """What files say of queries: read into memory, or mapped from the cache where they are large.

    Args:
        kind: how it is kept.
        files: what is read.
        key: everything else that it depends on, plain data.
        read: reads the files.
    """
    if not are_large(files):
        return read()
    name = json.dumps([kind.__name__, _FORMAT, key, *file_digests(files)])
    return DiskCache("queries").fetch(name, read, kind.save, kind.load, is_mapped=True)


def some(values: Mapping[str, T], query_ids: Iterable[str]) -> Mapping[str, T]:
    """The values of some queries, in the order that they have; queries without one are passed over."""
    if isinstance(values, Stored):
        return values.only(query_ids)
    wanted = frozenset(query_ids)
    return {query_id: value for query_id, value in values.items() if query_id in wanted}
