"""The reference store: exact search in memory, lost when the process ends."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ragtune.canonical.analyzers import Analyzer
from ragtune.canonical.permit import current
from ragtune.canonical.store.base import BaseDatabase, BaseStore
from ragtune.canonical.store.identity import check_same, describe, gone, unknown
from ragtune.canonical.store.lexical import Postings, bm25, query_terms
from ragtune.canonical.store.rows import (
    Row,
    candidates,
    check_doc_id,
    check_filters,
    check_k,
    check_page,
    check_query,
    compare,
    cosines,
    make_rows,
    rows_digest,
    same_json,
)
from ragtune.canonical.types import Candidate, Chunk, Collection, Embedding, Filters, StoreCounts, UpsertCounts
from ragtune.core.arrays import FloatArray, IntArray
from ragtune.core.interfaces import BaseEmbedder

_SLACK = 1e-5  # more than float32 sums of unit vectors can be off


class MemoryDatabase(BaseDatabase):
    """Collections in memory, the reference for other databases. Safe to use from several threads."""

    def __init__(self) -> None:
        self._contents: dict[str, _Contents] = {}
        self._lock = threading.Lock()

    def open(
        self, name: str, embedder: BaseEmbedder, *, create: bool = False, analyzer: str | None = None
    ) -> MemoryStore:
        wanted = describe(name, embedder, analyzer)
        with self._lock:
            if name not in self._contents:
                if not create:
                    raise unknown(name, sorted(self._contents))
                current().commit()
                self._contents[name] = _Contents(wanted)
            contents = self._contents[name]
        return MemoryStore(contents, embedder, check_same(contents.collection, wanted, analyzer))

    def collections(self) -> list[Collection]:
        with self._lock:
            return [self._contents[name].collection for name in sorted(self._contents)]

    def drop(self, name: str) -> bool:
        with self._lock:
            current().commit()
            contents = self._contents.pop(name, None)
        if contents is not None:
            contents.is_dropped = True
        return contents is not None

    def check(self) -> None:
        """Return at once, since memory always answers."""

    def close(self) -> None:
        """Return at once, since there is nothing to release."""


@dataclass
class _Contents:
    """The contents of a collection, shared by all its open stores."""

    collection: Collection
    documents: dict[str, list[Row]] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    index: _Index | None = None
    is_dropped: bool = False


class _Index:
    """All rows in the form that searches read; rebuilt after a write."""

    def __init__(self, rows: list[Row], dims: int) -> None:
        self.rows = rows
        self.vectors: Embedding = (
            np.stack([row.vector for row in rows]) if rows else np.zeros((0, dims), dtype=np.float32)
        )
        self.has_vector = self.vectors.any(axis=1)
        lengths = [row.length for row in rows]
        self.terms = sum(lengths)
        found: dict[str, list[tuple[int, int, int]]] = {}
        for place, (row, length) in enumerate(zip(rows, lengths, strict=True)):
            for term, tf in row.frequencies.items():
                found.setdefault(term, []).append((place, tf, length))
        self.postings = {term: Postings(*np.array(rows, dtype=np.int64).T) for term, rows in found.items()}

    def chunks(self, places: IntArray) -> list[Chunk]:
        return [self.rows[place].chunk for place in places.tolist()]

    def lexical_scores(self, terms: Sequence[str]) -> FloatArray:
        """BM25 of every row, shape (n,); NaN for rows that hold no term."""
        held = (self.postings[term] for term in terms if term in self.postings)
        return bm25(held, len(self.rows), self.terms, len(self.rows))


class MemoryStore(BaseStore):
    """One collection of a :class:`MemoryDatabase`; made by its ``open``."""

    def __init__(self, contents: _Contents, embedder: BaseEmbedder, analyzer: Analyzer) -> None:
        self.collection = contents.collection
        self.embedder = embedder
        self.analyzer = analyzer
        self._contents = contents

    def upsert(self, chunks: Sequence[Chunk], embeddings: Embedding) -> UpsertCounts:
        return self._write(make_rows(chunks, embeddings, self.collection.embed_dims, self.analyzer))

    def load(self, stream: Iterable[tuple[Sequence[Chunk], Embedding]]) -> UpsertCounts:
        return sum((self.upsert(chunks, embeddings) for chunks, embeddings in stream), UpsertCounts())

    def delete(self, doc_ids: Sequence[str]) -> int:
        return self._write({check_doc_id(doc_id): [] for doc_id in doc_ids}).documents

    def vector_candidates(self, embedding: Embedding, k: int, filters: Filters) -> list[Candidate]:
        query = check_query(embedding, self.collection.embed_dims)
        check_k(k)
        kept, index = self._kept(filters)
        if not query.any():
            return []
        places = np.flatnonzero(kept & index.has_vector)
        similarities = index.vectors[places] @ query
        if len(places) > k:
            least = np.partition(similarities, -k)[-k] - _SLACK
            places = places[similarities >= least]
        scores = cosines(index.vectors[places], query)
        return _candidates(index.chunks(places), scores, k, "vector")

    def lexical_candidates(self, query: str, k: int, filters: Filters) -> list[Candidate]:
        terms = query_terms(query, self.analyzer)
        check_k(k)
        kept, index = self._kept(filters)
        scores = index.lexical_scores(terms)
        places = np.flatnonzero(kept & ~np.isnan(scores))
        return _candidates(index.chunks(places), scores[places].tolist(), k, "lexical")

    def chunks(self, doc_id: str) -> list[Chunk]:
        wanted = check_doc_id(doc_id)
        contents = self._alive()
        with contents.lock:
            return [row.chunk.model_copy(deep=True) for row in contents.documents.get(wanted, [])]

    def doc_ids(self, after: str | None = None, limit: int | None = None) -> list[str]:
        start, most = check_page(after, limit)
        contents = self._alive()
        with contents.lock:
            return sorted(doc_id for doc_id in contents.documents if doc_id > start)[:most]

    def digests(self, doc_ids: Sequence[str]) -> dict[str, str]:
        wanted = sorted(set(map(check_doc_id, doc_ids)))
        contents = self._alive()
        with contents.lock:
            found = {doc_id: contents.documents[doc_id] for doc_id in wanted if doc_id in contents.documents}
        return {doc_id: rows_digest(rows) for doc_id, rows in found.items()}

    def counts(self) -> StoreCounts:
        contents = self._alive()
        with contents.lock:
            return StoreCounts(
                documents=len(contents.documents), chunks=sum(len(rows) for rows in contents.documents.values())
            )

    def _write(self, documents: dict[str, list[Row]]) -> UpsertCounts:
        """Make documents consist of exactly these rows. A document without rows is deleted."""
        contents = self._alive()
        with contents.lock:
            counts = UpsertCounts()
            for doc_id, rows in documents.items():
                before = {row.chunk.chunk_index: row.digest for row in contents.documents.get(doc_id, [])}
                counts += compare(before, rows).counts
            current().commit()
            contents.documents.update(documents)
            for doc_id in [doc_id for doc_id, rows in documents.items() if not rows]:
                del contents.documents[doc_id]
            contents.index = None
        return counts

    def _alive(self) -> _Contents:
        if self._contents.is_dropped:
            raise gone(self.collection.name)
        return self._contents

    def _kept(self, filters: Filters) -> tuple[NDArray[np.bool_], _Index]:
        """Which rows the filters let through, with the rows."""
        wanted = check_filters(filters)
        contents = self._alive()
        with contents.lock:
            if contents.index is None:
                rows = [row for doc_id in sorted(contents.documents) for row in contents.documents[doc_id]]
                contents.index = _Index(rows, self.collection.embed_dims)
            index = contents.index
        if wanted.is_empty:
            return np.ones(len(index.rows), dtype=np.bool_), index
        return np.array([_passes(row.chunk, wanted) for row in index.rows], dtype=np.bool_), index


def _candidates(chunks: Iterable[Chunk], scores: Iterable[float], k: int, source: str) -> list[Candidate]:
    """The best of a list; the caller may change them without changing the store."""
    rows = ((one.doc_id, one.chunk_index, one.content, one.tags, one.metadata) for one in chunks)
    found = candidates(zip(rows, scores, strict=True), k, source)
    return [one.model_copy(update={"metadata": deepcopy(one.metadata)}) for one in found]


def _passes(chunk: Chunk, filters: Filters) -> bool:
    tags = set(chunk.tags)
    return (
        (not filters.tags_any or not tags.isdisjoint(filters.tags_any))
        and tags.issuperset(filters.tags_all)
        and all(
            key in chunk.metadata and same_json(chunk.metadata[key], value) for key, value in filters.metadata.items()
        )
    )
