"""A ranking of documents for each of many queries, held as columns."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ragtune.core.arrays import FloatArray, IntArray
from ragtune.data.corpus import id_ranks
from ragtune.data.storedcorpus import StoredIds

_COLUMNS = ("queries", "doc_ids", "ends", "documents", "ranks", "scores")
_NONE = slice(0, 0)
_FEW = 2**15


class RunEntry(NamedTuple):
    """One retrieved document of one query."""

    doc_id: str
    rank: int
    score: float


class Run(Mapping[str, Sequence[RunEntry]]):
    """Entries by query, best first: by score, then by the file's rank, then by document id.

    Columns of e entries, which may lie on disk: positions in ``doc_ids`` (each document once), ranks and scores, shape
    (e,); ``ends``, shape (queries + 1,), where the entries of each query begin, and where the last ones end.
    """

    def __init__(
        self,
        queries: Iterable[str],
        doc_ids: Sequence[str],
        ends: IntArray,
        documents: NDArray[np.uint32],
        ranks: IntArray,
        scores: FloatArray,
    ) -> None:
        self.doc_ids = doc_ids
        self._queries = {query_id: i for i, query_id in enumerate(queries)}
        self._ends, self._documents, self._ranks, self._scores = ends, documents, ranks, scores

    def __getitem__(self, query_id: str) -> Sequence[RunEntry]:
        span = self._span(self._queries[query_id])
        return list(map(RunEntry, self._ids(span), self._ranks[span].tolist(), self._scores[span].tolist()))

    def __contains__(self, query_id: object) -> bool:
        return query_id in self._queries

    def __iter__(self) -> Iterator[str]:
        return iter(self._queries)

    def __len__(self) -> int:
        return len(self._queries)

    def scores(self, query_id: str) -> Mapping[str, float]:
        """Score of each document of a query, best first; empty for an unknown query."""
        span = self._span(self._queries.get(query_id))
        return dict(zip(self._ids(span), self._scores[span].tolist(), strict=True))

    def best(self, query_id: str, count: int) -> tuple[NDArray[np.uint32], list[float]]:
        """Positions in :attr:`doc_ids` and scores of the ``count`` best documents; none for an unknown query."""
        span = self._span(self._queries.get(query_id))
        best = slice(span.start, min(span.start + count, span.stop))
        return self._documents[best], self._scores[best].tolist()

    def score_columns(self) -> tuple[FloatArray, FloatArray]:
        """All scores, and the best one of each query."""
        return self._scores, self._scores[self._ends[:-1]]

    def by_rank(self, query_id: str) -> list[RunEntry]:
        """The entries of a query by the file's ranks."""
        return sorted(self[query_id], key=lambda entry: entry.rank)

    def names_twice(self) -> bool:
        """Whether a document has two entries for a query."""
        spans = map(self._span, self._queries.values())
        return any(len(set(self._documents[span].tolist())) < span.stop - span.start for span in spans)

    def _span(self, query: int | None) -> slice:
        return _NONE if query is None else slice(self._ends.item(query), self._ends.item(query + 1))

    def _ids(self, span: slice) -> list[str]:
        """Ids of the documents; all mentions of a document share one text."""
        positions = self._documents[span]
        if isinstance(self.doc_ids, StoredIds):
            return self.doc_ids.at(positions)
        return list(map(self.doc_ids.__getitem__, positions.tolist()))

    def save(self, folder: Path) -> None:
        """Write the columns into an empty folder."""
        columns = self._ends, self._documents, self._ranks, self._scores
        ids = (StoredIds.of(names).column for names in (self._queries, self.doc_ids))
        for name, column in zip(_COLUMNS, (*ids, *columns), strict=True):
            np.save(folder / f"{name}.npy", column)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """The run whose columns lie in a folder. Memory holds the queries' ids, and those of few documents."""
        queries, doc_ids, *columns = (np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r")) for name in _COLUMNS)
        ids = StoredIds(doc_ids)
        return cls(StoredIds(queries), ids[:] if len(ids) <= _FEW else ids, *columns)


class RunBuilder:
    """Collects the entries of a :class:`Run`, in any order."""

    def __init__(self) -> None:
        self._queries: dict[str, int] = {}
        self._documents: dict[str, int] = {}
        self._columns = array("I"), array("I"), array("q"), array("d")

    def add(self, query_id: str, doc_id: str, rank: int, score: float) -> None:
        """Add an entry."""
        queries, documents, ranks, scores = self._columns
        ranks.append(rank)
        scores.append(score)
        queries.append(self._queries.setdefault(query_id, len(self._queries)))
        documents.append(self._documents.setdefault(doc_id, len(self._documents)))

    def built(self) -> Run:
        """The run of all entries that were added."""
        queries, *columns = (np.frombuffer(column, dtype=column.typecode) for column in self._columns)
        doc_ids = list(map(sys.intern, self._documents))
        documents, ranks, scores = columns
        order = np.lexsort((id_ranks(doc_ids)[documents], ranks, -scores, queries))
        columns = [column[order] for column in columns]
        ends = np.concatenate([[0], np.cumsum(np.bincount(queries, minlength=len(self._queries)))])
        return Run(self._queries, doc_ids, ends, *columns)
