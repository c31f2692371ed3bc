"""Records that are kept as lines of a file."""

from __future__ import annotations

import os
import weakref
from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

from experiments.evaluate.record import QueryRecord
from experiments.evaluate.states import Orders

_ROOM = 8_000_000
"""How much is held of the documents and rankings of a run's first queries: eight for each id, one for each place, which
takes a byte, or two in a pool of more than 256."""

_Held = tuple[list[str], Orders]


class StoredRecords(Mapping[str, QueryRecord]):
    """Records by query id, each read from its line when something of it is asked for.

    The documents and rankings of the first are held. The lines can be read also once the file is removed.

    Args:
        path: the file.
        numbers: a number of each query that may come, from 0 with few gaps; None to number them as they come.
    """

    _lines: _Lines

    def __init__(self, path: Path, numbers: Mapping[str, int] | None = None) -> None:
        self._path = path
        self._numbers: Mapping[str, int] = defaultdict(count().__next__) if numbers is None else numbers
        self._places = array("q")
        self._length = 0
        self._held: dict[int, _Held] = {}
        self._room = _ROOM

    def put(self, record: QueryRecord, at: int, length: int) -> None:
        """Add a record, whose line of so many bytes stands in the file; of several of a query, the last counts.

        Raises:
            KeyError: if the query has no number.
        """
        if not self._places:
            self._lines = _Lines(self._path)
        number = self._numbers[record.query_id]
        if (missing := 2 * number + 2 - len(self._places)) > 0:
            self._places.frombytes(bytes(missing * self._places.itemsize))
        self._length += not self._has(number)
        self._places[2 * number : 2 * number + 2] = array("q", (at, length))
        self._held.pop(number, None)
        self._room -= 8 * len(record.doc_ids) + sum(map(len, record.rankings))
        if self._room >= 0:
            self._held[number] = record.doc_ids, record.rankings

    def __getitem__(self, query_id: str) -> QueryRecord:
        number = self._numbers.get(query_id, len(self._places))
        if not self._has(number):
            raise KeyError(query_id)
        at, length = self._places[2 * number : 2 * number + 2]
        return _StoredRecord(query_id, self._lines, at, length, self._held.get(number))

    def __iter__(self) -> Iterator[str]:
        return (query_id for query_id, number in self._numbers.items() if self._has(number))

    def __len__(self) -> int:
        return self._length

    def _has(self, number: int) -> bool:
        return 2 * number < len(self._places) and self._places[2 * number + 1] > 0


class _Lines:
    """Reads a file's lines again."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._descriptor)

    def read(self, at: int, length: int) -> bytes:
        return os.pread(self._descriptor, length, at)


class _StoredRecord(QueryRecord):
    """A record that is read once something of it is asked for that is not at hand."""

    _HELD = ("doc_ids", "rankings")
    _READ = frozenset(field.name for field in fields(QueryRecord))

    def __init__(self, query_id: str, lines: _Lines, at: int, length: int, held: _Held | None) -> None:
        vars(self).update(zip(self._HELD, held, strict=True) if held else (), query_id=query_id)
        vars(self).update(_lines=lines, _place=(at, length))

    def __getattr__(self, name: str) -> Any:
        if name in self._READ:
            return getattr(self._whole, name)
        raise AttributeError(name)

    @property
    def trace(self) -> str:
        _, tab, trace = self.to_line().partition(b"\t")
        return trace.decode() if tab else self._whole.trace

    def to_line(self) -> bytes:
        line: bytes = self._lines.read(*self._place)
        return line

    @cached_property
    def _whole(self) -> QueryRecord:
        return QueryRecord.from_line(self.to_line(), stays=False)

    def _plain(self) -> dict[str, Any]:
        return self._whole._plain()
