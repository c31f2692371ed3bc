"""A ranking of documents for each of many queries, held as columns."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any, NamedTuple

import numpy as np

from ragtune.core.arrays import FloatArray


class RunEntry(NamedTuple):
    """One retrieved document of one query."""

    doc_id: str
    rank: int
    score: float


class Run(Mapping[str, Sequence[RunEntry]]):
    """Entries by query, best first.

    Held as columns, some 20 bytes an entry, and made when they are asked for: as objects, the entries of a hundred
    thousand queries would fill the memory.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []
        self._columns: dict[str, _Columns] = {}

    def __getitem__(self, query_id: str) -> Sequence[RunEntry]:
        names, (documents, ranks, scores) = self._names, self._columns[query_id]
        return list(map(RunEntry, [names[i] for i in documents], ranks, scores))

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def doc_ids(self) -> Sequence[str]:
        """Every document that it names, once, in the order of their first entries."""
        return self._names

    def scores(self, query_id: str) -> Mapping[str, float]:
        """Score of each document of a query, best first; empty for a query that it does not hold."""
        documents, _, scores = self._columns.get(query_id, _NONE)
        return dict(zip([self._names[i] for i in documents], scores, strict=True))

    def best(self, query_id: str, count: int) -> tuple[list[str], list[float]]:
        """Ids and scores of the ``count`` best documents of a query; none for a query that it does not hold."""
        documents, _, scores = self._columns.get(query_id, _NONE)
        names = self._names
        return [names[i] for i in documents[:count]], scores[:count].tolist()

    def score_column(self, query_id: str) -> FloatArray:
        """The scores of a query alone, in the order of its entries."""
        return np.array(self._columns[query_id].scores)

    def extend(
        self, queries: Sequence[str], documents: Sequence[str], ranks: Sequence[int], scores: Sequence[float]
    ) -> None:
        """Take entries in, given as columns of equal length.

        Raises:
            OverflowError: if a rank has more than 64 bits.
        """
        known = self._numbers
        numbers = [known.setdefault(document, len(known)) for document in documents]
        self._names.extend(islice(known, len(self._names), None))
        ends = [0, *(i for i, (a, b) in enumerate(pairwise(queries), start=1) if a != b), len(queries)]
        for start, end in pairwise(ends):
            columns = self._columns.setdefault(queries[start], _Columns(array("I"), array("q"), array("d")))
            columns.documents.extend(numbers[start:end])
            columns.ranks.extend(ranks[start:end])
            columns.scores.extend(scores[start:end])

    def by_rank(self, query_id: str) -> list[RunEntry]:
        """The entries of a query by the file's ranks."""
        return sorted(self[query_id], key=lambda entry: entry.rank)

    def names_twice(self, query_id: str) -> bool:
        """Whether a document has two entries for the query."""
        documents = self._columns[query_id].documents
        return len(set(documents)) != len(documents)

    def sort(self) -> None:
        """Put the entries of every query in their order: by score, then by the file's rank, then by document id."""
        self._numbers.clear()
        for query_id, columns in self._columns.items():
            scores = np.array(columns.scores)
            if (scores[:-1] > scores[1:]).all():
                continue
            best_first = np.argsort(-scores)
            if (np.diff(scores[best_first]) == 0.0).any():
                entries = self[query_id]
                key = [(-e.score, e.rank, e.doc_id) for e in entries]
                best_first = np.array(sorted(range(len(entries)), key=key.__getitem__))
            sorted_columns: Any = (
                array(c.typecode, np.frombuffer(c, c.typecode)[best_first].tobytes()) for c in columns
            )
            self._columns[query_id] = _Columns(*sorted_columns)


class _Columns(NamedTuple):
    """The entries of one query: document by number, rank, score."""

    documents: array[int]
    ranks: array[int]
    scores: array[float]


_NONE = _Columns(array("I"), array("q"), array("d"))
