"""The canonical store on PostgreSQL with pgvector (rules D6 to D8 and D13): explicit SQL, every value a parameter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from ragtune.canonical.analyzers import Analyzer
from ragtune.canonical.permit import current
from ragtune.canonical.store.base import BaseStore
from ragtune.canonical.store.connections import Connections, MissingTableError
from ragtune.canonical.store.identity import gone
from ragtune.canonical.store.lexical import query_terms
from ragtune.canonical.store.rows import (
    best,
    check_doc_id,
    check_filters,
    check_k,
    check_page,
    check_query,
    cosines,
    dump_json,
    make_rows,
)
from ragtune.canonical.store.searching import LexicalSearch, fetch_all
from ragtune.canonical.store.statements import MARGIN, NO_FILTER, Statements, filter_condition
from ragtune.canonical.store.writing import (
    IndexPolicy,
    build_indexes,
    count_write,
    lock_collection,
    touch_one_collection,
    write_documents,
)
from ragtune.canonical.types import Candidate, Chunk, Collection, Embedding, Filters, StoreCounts, UpsertCounts
from ragtune.core.arguments import check_count
from ragtune.core.errors import ConfigError
from ragtune.core.interfaces import BaseEmbedder

T = TypeVar("T")

_EF_MAX = 1000  # pgvector's limit of hnsw.ef_search


@dataclass(frozen=True)
class SearchSettings:
    """How PostgreSQL stores search.

    Attributes:
        exact_below: a collection, or what filters leave of one, is searched exactly while it has up to so many chunks;
            a collection that grows beyond gets its indexes. >= 0.
        ef_search: candidates that an HNSW search keeps, 1 to 1000; more cost time and raise recall.
        max_scan_tuples: rows that a filtered HNSW search visits before it gives up, >= 1; where it has not found enough
            by then, all rows that the filter leaves are compared.
        maintenance_work_mem: memory of an index build, as PostgreSQL writes it.

    Raises:
        ConfigError: on a value out of range.
    """

    exact_below: int = 2000
    ef_search: int = 200
    max_scan_tuples: int = 100_000
    maintenance_work_mem: str = "512MB"

    def __post_init__(self) -> None:
        check_count("postgres exact_below", self.exact_below)
        check_count("postgres max_scan_tuples", self.max_scan_tuples, low=1)
        if check_count("postgres ef_search", self.ef_search, low=1) > _EF_MAX:
            raise ConfigError(f"postgres ef_search={self.ef_search}: allowed is at most {_EF_MAX}")

    @property
    def policy(self) -> IndexPolicy:
        """When a collection gets its indexes."""
        return IndexPolicy(self.exact_below, self.maintenance_work_mem)

    @property
    def session(self) -> dict[str, str]:
        """Session settings of every connection, by name."""
        return {
            "hnsw.ef_search": str(self.ef_search),
            "hnsw.iterative_scan": "strict_order",
            "hnsw.max_scan_tuples": str(self.max_scan_tuples),
            "jit": "off",  # compiling takes longer than any query here
        }


class PostgresStore(BaseStore):
    """One collection of a :class:`ragtune.canonical.store.database.PostgresDatabase`; made by its ``open``.

    Vector searches of a collection of more than ``exact_below`` chunks are approximate (HNSW), so ties are by rule
    among what the index found; of smaller ones, and where filters leave no more rows than that, they are exact. Lexical
    searches always are.
    """

    def __init__(
        self,
        connections: Connections,
        sql: Statements,
        collection: Collection,
        embedder: BaseEmbedder,
        analyzer: Analyzer,
        search: SearchSettings,
    ) -> None:
        self.collection = collection
        self.embedder = embedder
        self.analyzer = analyzer
        self._connections = connections
        self._sql = sql
        self._search = search
        self._policy = search.policy
        self._lexical = LexicalSearch(sql, search.exact_below)
        self._is_indexed = False  # becomes true for good

    def upsert(self, chunks: Sequence[Chunk], embeddings: Embedding) -> UpsertCounts:
        return self._write(chunks, embeddings, self._policy)

    def load(self, stream: Iterable[tuple[Sequence[Chunk], Embedding]]) -> UpsertCounts:
        """As the interface says; batches of about a thousand chunks are fastest.

        A batch is committed before the next one is asked for. Where the collection has no indexes yet, they are built
        when all batches are in.
        """
        counts = sum((self._write(chunks, embeddings, None) for chunks, embeddings in stream), UpsertCounts())
        self._run(lambda connection: build_indexes(connection, self._sql, self._policy))
        return counts

    def delete(self, doc_ids: Sequence[str]) -> int:
        values = {"doc_ids": [check_doc_id(doc_id) for doc_id in doc_ids]}

        def work(connection: Any) -> int:
            with connection.transaction():
                touch_one_collection(connection)
                is_posted = lock_collection(connection, self._sql).is_posted
                documents, chunks, terms = connection.execute(self._sql.delete_documents(is_posted), values).fetchone()
                connection.execute(self._sql.count(), (-documents, -chunks, -terms))
                if is_posted:
                    count_write(connection, self._sql, 0)
                current().commit()
            return int(documents)

        return self._run(work)

    def vector_candidates(self, embedding: Embedding, k: int, filters: Filters) -> list[Candidate]:
        query = check_query(embedding, self.collection.embed_dims)
        wanted = check_filters(filters)
        fetch = check_k(k) + MARGIN
        values = {
            "query": query,
            "k": k,
            "fetch": fetch,
            "most": 4 * k + 1000,
            "exact_below": self._search.exact_below,
            **_filter_values(wanted),
        }
        rows = self._run(lambda connection: self._nearest(connection, filter_condition(wanted), values, fetch))
        if not rows or not query.any():
            return []
        vectors = self._vectors([row[-1] for row in rows])
        found = zip(rows, cosines(vectors, query), np.linalg.norm(vectors, axis=1), strict=True)
        return _candidates(((row, score) for row, score, norm in found if norm > 0), k, "vector")

    def lexical_candidates(self, query: str, k: int, filters: Filters) -> list[Candidate]:
        terms = query_terms(query, self.analyzer)
        wanted = check_filters(filters)
        check_k(k)
        if not terms:
            self.counts()  # a collection that is gone is an error for any query
            return []
        condition, values = filter_condition(wanted), _filter_values(wanted)
        rows = self._run(lambda connection: self._lexical.search(connection, terms, k, condition, values))
        return _candidates(((row, row[-1]) for row in rows), k, "lexical")

    def chunks(self, doc_id: str) -> list[Chunk]:
        values = (check_doc_id(doc_id),)
        return [
            _chunk(row) for row in self._run(lambda connection: fetch_all(connection, self._sql.read_chunks(), values))
        ]

    def doc_ids(self, after: str | None = None, limit: int | None = None) -> list[str]:
        return [doc_id for (doc_id,) in self._documents(self._sql.read_doc_ids(), check_page(after, limit))]

    def digests(self, doc_ids: Sequence[str]) -> dict[str, str]:
        values = ([check_doc_id(doc_id) for doc_id in doc_ids],)
        return dict(self._documents(self._sql.read_document_digests(), values))

    def counts(self) -> StoreCounts:
        rows = self._run(lambda connection: fetch_all(connection, self._sql.read_counts(), ()))
        if not rows:
            raise gone(self.collection.name)
        documents, chunks = rows[0]
        return StoreCounts(documents=documents, chunks=chunks)

    def _vectors(self, sent: Sequence[bytes]) -> Embedding:
        """Shape (len(sent), embed_dims), from pgvector's wire format: dims, zero, and big-endian float32 values."""
        matrix = np.frombuffer(b"".join(sent), dtype=">f4").reshape(len(sent), self.collection.embed_dims + 1)
        return matrix[:, 1:].astype(np.float32)

    def _documents(self, sql: bytes, values: Any) -> list[Any]:
        """Rows about documents; the statement gives one of nulls for a collection that has none."""
        rows = self._run(lambda connection: fetch_all(connection, sql, values))
        if not rows:
            raise gone(self.collection.name)
        return [row for row in rows if row[0] is not None]

    def _write(self, chunks: Sequence[Chunk], embeddings: Embedding, policy: IndexPolicy | None) -> UpsertCounts:
        documents = make_rows(chunks, embeddings, self.collection.embed_dims, self.analyzer)
        return self._run(lambda connection: write_documents(connection, self._sql, documents, policy))

    def _nearest(self, connection: Any, condition: str, values: dict[str, Any], fetch: int) -> list[Any]:
        if not self._has_index(connection):
            return fetch_all(connection, self._sql.exact(condition), values)
        rows = self._by_index(connection, self._sql.nearest(condition), values, fetch)
        if condition == NO_FILTER:
            return rows
        if len(rows) < values["k"] and not (rows and rows[0][-1]):
            # What passes is so far from the query that the index gave up before it came there.
            return fetch_all(connection, self._sql.exact(condition), values)
        return [row[:-1] for row in rows]

    def _by_index(self, connection: Any, sql: bytes, values: dict[str, Any], fetch: int) -> list[Any]:
        if fetch <= self._search.ef_search:
            return fetch_all(connection, sql, values)
        with connection.transaction():
            connection.execute("SELECT set_config('hnsw.ef_search', %s, true)", (str(min(2 * fetch, _EF_MAX)),))
            return fetch_all(connection, sql, values)

    def _has_index(self, connection: Any) -> bool:
        if not self._is_indexed and self._sql.has_vector_index:
            found = connection.execute(self._sql.read_is_indexed()).fetchone()
            self._is_indexed = found is not None and found[0]
        return self._is_indexed

    def _run(self, work: Callable[[Any], T]) -> T:
        try:
            return self._connections.run(work)
        except MissingTableError as error:
            raise gone(self.collection.name) from error


def _filter_values(filters: Filters) -> dict[str, Any]:
    given = {
        "tags_any": list(filters.tags_any),
        "tags_all": list(filters.tags_all),
        "metadata": dump_json(filters.metadata),
    }
    return {name: value for name, value in given.items() if getattr(filters, name)}


def _candidates(found: Iterable[tuple[Sequence[Any], float]], k: int, source: str) -> list[Candidate]:
    """The best of a list, from rows that begin with :data:`ROW`'s columns."""
    return [
        Candidate(
            doc_id=row[0],
            chunk_index=row[1],
            content=row[2],
            score=score,
            tags=tuple(row[3]),
            metadata=row[4],
            sources={source: score},
        )
        for row, score in best(found, k, lambda row: (row[0], row[1]))
    ]


def _chunk(row: Sequence[Any]) -> Chunk:
    doc_id, chunk_index, content, tags, metadata, start, end = row[:7]
    return Chunk(
        doc_id=doc_id,
        chunk_index=chunk_index,
        content=content,
        tags=tuple(tags),
        metadata=metadata,
        start=start,
        end=end,
    )
