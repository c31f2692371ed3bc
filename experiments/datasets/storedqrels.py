"""Judgments of large files on disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from experiments.datasets.stored import Stored, TwiceError
from ragtune.core.arrays import IntArray
from ragtune.data.stored.rows import Rows
from ragtune.data.stored.storedids import StoredIds
from ragtune.data.stored.storedstrings import StoredStrings
from ragtune.data.stored.stringrows import StringRows, some_at_once

_DOCUMENTS, _ENDS, _GRADES = "documents", "ends.npy", "grades.npy"

_AT_WORK = 2**10
"""Queries whose grades are remembered: a measure looks at them more than once."""


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
        self._recent: dict[str, Mapping[str, int]] = {}

    def __getitem__(self, query_id: str) -> Mapping[str, int]:
        grades = self._recent.get(query_id)
        if grades is None:
            grades = super().__getitem__(query_id)
            if len(self._recent) >= _AT_WORK:
                self._recent.clear()
            self._recent[query_id] = grades
        return grades

    def _at(self, position: int) -> dict[str, int]:
        begin, end = self._ends.item(position), self._ends.item(position + 1)
        doc_ids = self._documents.at(position).decode().split(" ")
        return dict(zip(doc_ids, self._grades[begin:end].tolist(), strict=True))

    def only(self, query_ids: Iterable[str]) -> Self:
        return type(self)(self._ids.only(query_ids), self._ends, self._documents, self._grades)

    @staticmethod
    def save(values: Iterable[tuple[str, Mapping[str, int]]], folder: Path) -> None:
        ids, documents, ends, grades = StringRows(folder), StringRows(folder), Rows(folder), Rows(folder)
        ends.extend(np.zeros(1, dtype=np.intp))
        grades.extend(np.zeros(0, dtype=np.int32))
        count = 0
        for some in some_at_once(values):
            ids.extend(query_id for query_id, _ in some)
            documents.extend(" ".join(judged) for _, judged in some)
            ends.extend(count + np.cumsum([len(judged) for _, judged in some]))
            grades.extend(np.fromiter(chain.from_iterable(judged.values() for _, judged in some), np.int32))
            count += sum(len(judged) for _, judged in some)
        if StoredIds.save(ids.whole(), folder) is not None:
            raise TwiceError
        documents.whole().save(folder, _DOCUMENTS)
        np.save(folder / _ENDS, ends.whole())
        np.save(folder / _GRADES, grades.whole())

    @classmethod
    def load(cls, folder: Path) -> Self:
        ends, grades = (np.asarray(np.load(folder / name, mmap_mode="r")) for name in (_ENDS, _GRADES))
        return cls(StoredIds.load(folder), ends, StoredStrings.load(folder, _DOCUMENTS), grades)
