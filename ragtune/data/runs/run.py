"""A ranking of documents for each of many queries, held as columns."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ragtune.core.arrays import FloatArray, IntArray
from ragtune.data.stored.rows import Rows, blocks, taken
from ragtune.data.stored.storedids import StoredIds
from ragtune.data.stored.storedstrings import StoredStrings
from ragtune.data.stored.stringrows import gathered
from ragtune.data.topk import id_ranks

_DOCUMENTS, _COLUMNS = "doc_ids", ("ends", "documents", "ranks", "scores")


class RunEntry(NamedTuple):
    """One retrieved document of one query."""

    doc_id: str
    rank: int
    score: float


class Run(Mapping[str, Sequence[RunEntry]]):
    """Entries by query, best first: by score, then by the file's rank, then by document id.

    Held as columns, some 20 bytes an entry, that processes share where they lie on disk; entries are made when they are
    asked for.

    Args:
        queries: position of each of the q queries.
        names: shape (n,), ids of the documents, None for one that is still to be read.
        ends: shape (q + 1,), where the entries of each query begin, and where the last ones end.
        documents: shape (e,), positions in ``names``.
        ranks: shape (e,), as in the file.
        scores: shape (e,).
        stored: the ids of documents on disk, where not all have been read.
    """

    def __init__(
        self,
        queries: Mapping[str, int],
        names: NDArray[Any],
        ends: IntArray,
        documents: NDArray[np.uint32],
        ranks: IntArray,
        scores: FloatArray,
        *,
        stored: StoredStrings | None = None,
    ) -> None:
        self._queries = queries
        self._names, self._ends, self._documents, self._ranks, self._scores = names, ends, documents, ranks, scores
        self._stored = stored

    def __getitem__(self, query_id: str) -> Sequence[RunEntry]:
        span = self._span(self._queries[query_id])
        ranks, scores = self._ranks[span].tolist(), self._scores[span].tolist()
        return list(map(RunEntry, self._named(self._documents[span]), ranks, scores))

    def __iter__(self) -> Iterator[str]:
        return iter(self._queries)

    def __len__(self) -> int:
        return len(self._queries)

    @property
    def doc_ids(self) -> Sequence[str]:
        """Every document that it names, once, in the order of their first entries."""
        names: list[str] = self._names.tolist()
        return names if self._stored is None else self._stored

    def scores(self, query_id: str) -> Mapping[str, float]:
        """Score of each document of a query, best first; empty for a query that it does not hold."""
        span = self._span(self._queries.get(query_id))
        return dict(zip(self._named(self._documents[span]), self._scores[span].tolist(), strict=True))

    def best(self, query_id: str, count: int) -> tuple[NDArray[np.uint32], list[float]]:
        """The ``count`` best documents of a query, by their positions in :attr:`doc_ids`, and their scores; none for a
        query that it does not hold.
        """
        span = self._span(self._queries.get(query_id))
        best = slice(span.start, min(span.start + count, span.stop))
        return self._documents[best], self._scores[best].tolist()

    def score_range(self) -> tuple[float, float]:
        """The lowest and the highest score of all queries."""
        return float(self._scores.min()), float(self._scores.max())

    def score_columns(self) -> tuple[FloatArray, FloatArray]:
        """All scores, and the best one of each query that has any."""
        begins = self._ends[:-1]
        return self._scores, self._scores[begins[begins < self._ends[1:]]]

    def by_rank(self, query_id: str) -> list[RunEntry]:
        """The entries of a query by the file's ranks."""
        return sorted(self[query_id], key=lambda entry: entry.rank)

    def names_twice(self) -> bool:
        """Whether a document has two entries for a query."""
        spans = map(self._span, self._queries.values())
        return any(len(set(self._documents[span].tolist())) < span.stop - span.start for span in spans)

    def _span(self, query: int | None) -> slice:
        """Where the entries of a query lie; none are those of None."""
        return _NONE if query is None else slice(self._ends.item(query), self._ends.item(query + 1))

    def _named(self, documents: NDArray[np.integer[Any]]) -> list[str]:
        """Ids of documents: one text for all mentions of a document, made with the first one."""
        found: list[Any] = self._names[documents].tolist()
        if self._stored is None or None not in found:
            return found
        first = int(documents[found.index(None)])
        self._names[first : first + _AHEAD] = self._stored.between(first, min(first + _AHEAD, len(self._stored)))
        found = self._names[documents].tolist()
        for place in (i for i, name in enumerate(found) if name is None):
            self._names[documents[place]] = found[place] = self._stored[documents.item(place)]
        return found

    def save(self, folder: Path) -> None:
        """Write the columns into an empty folder."""
        StoredIds.save(gathered(self._queries, folder), folder)
        gathered(self.doc_ids, folder).save(folder, _DOCUMENTS)
        for name in _COLUMNS:
            np.save(folder / f"{name}.npy", getattr(self, f"_{name}"))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """The run whose columns lie in a folder; memory holds what is looked at."""
        columns = (np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r")) for name in _COLUMNS)
        names = StoredStrings.load(folder, _DOCUMENTS)
        return cls(StoredIds.load(folder), np.full(len(names), None), *columns, stored=names)


_NONE = slice(0, 0)

_AHEAD = 256
"""Ids that are read with a new one, in an eighth of the time: documents are numbered as they are first named."""


class Named(NamedTuple):
    """Ids of entries: the names that occur, and the position of each entry's among them, shape (e,)."""

    names: Sequence[str]
    positions: IntArray


class Entries(NamedTuple):
    """Entries as columns: ids of queries and documents, ranks of shape (e,), finite scores of shape (e,)."""

    queries: Named
    documents: Named
    ranks: IntArray
    scores: FloatArray


_KINDS = (np.uint32, np.uint32, np.int64, np.float64)
"""Of the columns of a builder: queries, documents, ranks, scores."""


class RunBuilder:
    """Takes the entries of a :class:`Run` in, in any order.

    Args:
        folder: where the columns of many entries are, see :class:`~ragtune.data.stored.rows.Rows`; None to hold them.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._queries: dict[str, int] = {}
        self._documents: dict[str, int] = {}
        self._folder = folder
        self._rows = [Rows(folder) for _ in _KINDS]

    def extend(self, entries: Entries) -> None:
        """Take entries in."""
        queries, documents, ranks, scores = entries
        columns: list[NDArray[Any]] = [_numbered(self._queries, queries), _numbered(self._documents, documents)]
        for rows, column, kind in zip(self._rows, [*columns, ranks, scores], _KINDS, strict=True):
            rows.extend(column.astype(kind, copy=False))

    def built(self) -> Run:
        """The run of all entries that the builder has taken in."""
        for rows, kind in zip(self._rows, _KINDS, strict=True):
            rows.extend(np.empty(0, dtype=kind))
        queries, documents, ranks, scores = (rows.whole(to_change=True) for rows in self._rows)
        ranks = _small(ranks, self._folder)
        names = np.array(list(map(sys.intern, self._documents)), dtype=object)
        counts = np.zeros(len(self._queries), dtype=np.intp)
        for some in blocks(len(queries)):
            counts += np.bincount(queries[some], minlength=len(counts))
        ends = np.concatenate([[0], np.cumsum(counts)])
        if _are_apart(queries):
            by_query = queries.argsort(kind="stable")
            apart = queries, documents, ranks, scores
            columns = (taken(column, by_query, self._folder, to_change=True) for column in apart)
            queries, documents, ranks, scores = columns
        tie_ranks = cache(lambda: id_ranks(names.tolist()))
        for part in _parts(ends):
            entries = queries[part], documents[part], ranks[part], scores[part]
            if (order := _best_first(tie_ranks, *entries)) is not None:
                for column in entries[1:]:
                    column[:] = column[order]
        return Run(self._queries, names, ends, documents, ranks, scores)


_PART = 2**18
"""Entries sorted at once: what a sort needs beside them would be several times what they take themselves."""


def _parts(ends: IntArray) -> Iterator[slice]:
    """The entries of some whole queries at a time: :data:`_PART`, or those of a single query where it has more."""
    start = 0
    while start < ends[-1]:
        whole = ends[ends.searchsorted(start + _PART, side="right") - 1]
        stop = max(whole, ends[ends.searchsorted(start, side="right")])
        yield slice(start, stop)
        start = stop


def _are_apart(queries: NDArray[np.uint32]) -> bool:
    """Whether the entries of some query do not follow one another."""
    parts = (queries[max(some.start - 1, 0) : some.stop] for some in blocks(len(queries)))
    return any((part[1:] < part[:-1]).any() for part in parts)


def _small(numbers: IntArray, folder: Path | None) -> IntArray:
    """The numbers in as few bytes as hold them."""
    low, high = int(numbers.min(initial=0)), int(numbers.max(initial=0))
    # What holds two whole numbers of which one is negative is to NumPy itself, for large ones, a float.
    kind, rows = np.min_scalar_type(min(low, -high - 1) if low < 0 else high), Rows(folder)
    for some in (slice(0, 0), *blocks(len(numbers))):
        rows.extend(numbers[some].astype(kind))
    return rows.whole(to_change=True)


def _numbered(known: dict[str, int], ids: Named) -> NDArray[np.uint32]:
    """The number of each entry's name, which new names get in their order."""
    for name in ids.names:
        known.setdefault(name, len(known))
    numbers: NDArray[np.uint32] = np.fromiter(map(known.__getitem__, ids.names), np.uint32, len(ids.names))
    return numbers.take(ids.positions)


def _best_first(
    tie_ranks: Callable[[], IntArray],
    queries: NDArray[Any],
    documents: NDArray[Any],
    ranks: NDArray[Any],
    scores: NDArray[Any],
) -> NDArray[np.intp] | None:
    """The order of the entries: by query, then best first; None where they are so already."""
    follows = queries[1:] > queries[:-1]
    if (follows | ((queries[1:] == queries[:-1]) & (scores[1:] < scores[:-1]))).all():
        return None
    order = np.lexsort((ranks, -scores, queries))
    tied = np.logical_and.reduce([np.diff(column[order]) == 0 for column in (queries, scores, ranks)])
    return np.lexsort((tie_ranks()[documents], ranks, -scores, queries)) if tied.any() else order
