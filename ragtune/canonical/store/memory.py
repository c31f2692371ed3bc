"""The reference store: exact search in memory, lost when the process ends."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ragtune.canonical.analyzers import Analyzer, check_same, describe, gone, unknown
from ragtune.canonical.normalization import check_metadata
from ragtune.canonical.permit import current
from ragtune.canonical.store.base import BaseDatabase, BaseStore
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
from ragtune.core.interfaces import BaseEmbedder


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

    def settings(self, name: str) -> dict[str, Any]:
        with self._lock:
            return dict(self._contents[name].settings) if name in self._contents else {}

    def drop(self, name: str) -> bool:
        with self._lock:
            current().commit()
            contents = self._contents.pop(name, None)
        if contents is not None:
            contents.is_dropped = True
        return contents is not None


@dataclass
class _Contents:
    """The contents of a collection, shared by all its open stores."""

    collection: Collection
    documents: dict[str, list[Row]] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    settings: dict[str, Any] = field(default_factory=dict)
    is_dropped: bool = False


class MemoryStore(BaseStore):
    """One collection of a :class:`MemoryDatabase`; made by its ``open``."""

    def __init__(self, contents: _Contents, embedder: BaseEmbedder, analyzer: Analyzer) -> None:
        self.collection = contents.collection
        self.embedder = embedder
        self.analyzer = analyzer
        self.settings = contents.settings
        self._contents = contents

    def save_settings(self, settings: dict[str, Any]) -> None:
        self.settings.update(check_metadata(settings, "settings"))

    def upsert(self, chunks: Sequence[Chunk], embeddings: Embedding) -> UpsertCounts:
        return self._write(make_rows(chunks, embeddings, self.collection.embed_dims, self.analyzer))

    def delete(self, doc_ids: Sequence[str]) -> int:
        return self._write({check_doc_id(doc_id): [] for doc_id in doc_ids}).documents

    def vector_candidates(self, embedding: Embedding, k: int, filters: Filters) -> list[Candidate]:
        query = check_query(embedding, self.collection.embed_dims)
        wanted, most = check_filters(filters), check_k(k)
        rows = [row for row in self._rows() if row.vector.any() and _passes(row.chunk, wanted)]
        if not rows or not query.any():
            return []
        return _candidates(rows, cosines(np.stack([row.vector for row in rows]), query), most, "vector")

    def lexical_candidates(self, query: str, k: int, filters: Filters) -> list[Candidate]:
        terms = query_terms(query, self.analyzer)
        wanted, most = check_filters(filters), check_k(k)
        rows = self._rows()
        postings = [_postings(rows, term) for term in terms]
        scores = bm25(postings, len(rows), sum(row.length for row in rows), len(rows)).tolist()
        found = [place for place, score in enumerate(scores) if score == score and _passes(rows[place].chunk, wanted)]
        return _candidates([rows[place] for place in found], [scores[place] for place in found], most, "lexical")

    def chunks(self, doc_id: str) -> list[Chunk]:
        found = self._documents().get(check_doc_id(doc_id), [])
        return [row.chunk.model_copy(deep=True) for row in found]

    def contents(self) -> tuple[list[Chunk], Embedding]:
        rows = self._rows()
        vectors = np.array([row.vector for row in rows], np.float32).reshape(-1, self.collection.embed_dims)
        return [row.chunk.model_copy(deep=True) for row in rows], vectors

    def doc_ids(self, after: str | None = None, limit: int | None = None) -> list[str]:
        start, most = check_page(after, limit)
        return sorted(doc_id for doc_id in self._documents() if doc_id > start)[:most]

    def digests(self, doc_ids: Sequence[str]) -> dict[str, str]:
        wanted = sorted(set(map(check_doc_id, doc_ids)))
        documents = self._documents()
        return {doc_id: rows_digest(documents[doc_id]) for doc_id in wanted if doc_id in documents}

    def counts(self) -> StoreCounts:
        documents = self._documents()
        return StoreCounts(documents=len(documents), chunks=sum(map(len, documents.values())))

    def _write(self, documents: dict[str, list[Row]]) -> UpsertCounts:
        """Make documents consist of exactly these rows. A document without rows is deleted."""
        with self._contents.lock:
            known = self._documents()
            counts = UpsertCounts()
            for doc_id, rows in documents.items():
                before = {row.chunk.chunk_index: row.digest for row in known.get(doc_id, [])}
                counts += compare(before, rows).counts
            current().commit()
            self._contents.documents = {doc_id: rows for doc_id, rows in {**known, **documents}.items() if rows}
        return counts

    def _documents(self) -> dict[str, list[Row]]:
        """All rows by document; a write makes a new dictionary."""
        if self._contents.is_dropped:
            raise gone(self.collection.name)
        return self._contents.documents

    def _rows(self) -> list[Row]:
        return [row for _, rows in sorted(self._documents().items()) for row in rows]


def _postings(rows: Sequence[Row], term: str) -> Postings:
    found = [(place, row.frequencies[term], row.length) for place, row in enumerate(rows) if term in row.frequencies]
    return Postings(*np.array(found, dtype=np.int64).reshape(-1, 3).T)


def _candidates(rows: Sequence[Row], scores: Sequence[float], k: int, source: str) -> list[Candidate]:
    """The best of a list; the caller may change them without changing the store."""
    chunks = (row.chunk for row in rows)
    fields = ((one.doc_id, one.chunk_index, one.content, one.tags, one.metadata) for one in chunks)
    found = candidates(zip(fields, scores, strict=True), k, source)
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
