"""The canonical store on PostgreSQL with pgvector (rules D6 to D8 and D13)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ragtune.canonical.analyzers import Analyzer, gone
from ragtune.canonical.fusion import LEXICAL, VECTOR, fused_scores
from ragtune.canonical.normalization import check_metadata
from ragtune.canonical.policies import RetrievalPlan
from ragtune.canonical.store.base import BaseStore
from ragtune.canonical.store.lexical import bm25, decode, query_terms
from ragtune.canonical.store.rows import (
    candidate,
    candidates,
    check_doc_id,
    check_filters,
    check_k,
    check_page,
    check_query,
    cosines,
    dump_json,
    make_rows,
)
from ragtune.canonical.store.statements import (
    EF_SEARCH,
    MARGIN,
    NO_FILTER,
    MissingTableError,
    Statements,
    filter_condition,
)
from ragtune.canonical.store.writing import build_indexes, write_documents
from ragtune.canonical.types import Candidate, Chunk, Collection, Embedding, Filters, StoreCounts, UpsertCounts
from ragtune.core.arrays import FloatArray
from ragtune.core.interfaces import BaseEmbedder

T = TypeVar("T")
BoolArray = NDArray[np.bool_]

_EF_MAX = 1000  # pgvector's limit of hnsw.ef_search
_RARE = 10_000  # chunks that are found faster by their terms than by most filters


class PostgresStore(BaseStore):
    """One collection of a :class:`ragtune.canonical.store.database.PostgresDatabase`, which creates it in ``open``.

    A vector search is exact in a collection of up to ``exact_below`` chunks, and where PostgreSQL finds the rows that
    pass a filter by the filter's index. Otherwise it is approximate (HNSW), and ties are in order among the rows that
    the index found. A lexical search is always exact.
    """

    def __init__(
        self,
        run: Callable[[Callable[[Any], Any]], Any],
        sql: Statements,
        collection: Collection,
        embedder: BaseEmbedder,
        analyzer: Analyzer,
        exact_below: int,
        settings: dict[str, Any],
    ) -> None:
        self.settings = settings
        self.collection = collection
        self.embedder = embedder
        self.analyzer = analyzer
        self._run_on_server = run
        self._sql = sql
        self._exact_below = exact_below
        self._is_indexed = False  # never becomes false again

    def save_settings(self, settings: dict[str, Any]) -> None:
        from psycopg.types.json import Jsonb

        if not self._fetch(self._sql("save_settings"), (Jsonb(check_metadata(settings, "settings")),)):
            raise gone(self.collection.name)
        self.settings = {**self.settings, **settings}

    def upsert(self, chunks: Sequence[Chunk], embeddings: Embedding) -> UpsertCounts:
        return self._write(chunks, embeddings, self._exact_below)

    def load(self, stream: Iterable[tuple[Sequence[Chunk], Embedding]]) -> UpsertCounts:
        """As in the interface. Each batch is committed before the next one is read; about 1,000 chunks are fastest."""
        counts = sum((self._write(chunks, embeddings, None) for chunks, embeddings in stream), UpsertCounts())
        self._run(lambda connection: build_indexes(connection, self._sql, self._exact_below))
        return counts

    def delete(self, doc_ids: Sequence[str]) -> int:
        documents: dict[str, list[Any]] = {check_doc_id(doc_id): [] for doc_id in doc_ids}
        return self._run(
            lambda connection: write_documents(connection, self._sql, documents, self._exact_below)
        ).documents

    def vector_candidates(self, embedding: Embedding, k: int, filters: Filters) -> list[Candidate]:
        query = check_query(embedding, self.collection.embed_dims)
        wanted = check_filters(filters)
        values = {"query": query, "k": check_k(k), "fetch": k + MARGIN, "most": 4 * k + 1000, **_values(wanted)}
        rows = self._run(lambda connection: self._nearest(connection, filter_condition(wanted), values))
        if not rows or not query.any():
            return []
        vectors = self._vectors([row[-1] for row in rows])
        found = zip(rows, cosines(vectors, query), np.linalg.norm(vectors, axis=1), strict=True)
        return candidates(((row, score) for row, score, norm in found if norm > 0), k, "vector")

    def lexical_candidates(self, query: str, k: int, filters: Filters) -> list[Candidate]:
        terms = query_terms(query, self.analyzer)
        wanted = check_filters(filters)
        check_k(k)
        rows = self._run(lambda connection: self._best_by_terms(connection, terms, k, wanted))
        return candidates(((row, row[-1]) for row in rows), k, "lexical")

    def hybrid_candidates(self, query: str, embedding: Embedding, plan: RetrievalPlan) -> list[Candidate]:
        """As in the interface. Without a filter, only the best chunks are read whole, in three statements."""
        vector, fetch = check_query(embedding, self.collection.embed_dims), plan.candidate_pool + MARGIN
        if not plan.filters.is_empty or not vector.any() or fetch > EF_SEARCH or not self._run(self._has_index):
            return super().hybrid_candidates(query, embedding, plan)
        terms = query_terms(query, self.analyzer)
        return self._run(lambda connection: self._fused(connection, terms, vector, fetch, plan))

    def chunks(self, doc_id: str) -> list[Chunk]:
        return [_chunk(row) for row in self._fetch(self._sql("read_chunks"), (check_doc_id(doc_id),))]

    def contents(self) -> tuple[list[Chunk], Embedding]:
        rows = self._fetch(self._sql("read_contents"), ())
        return [_chunk(row[:-1]) for row in rows], self._vectors([row[-1] for row in rows])

    def doc_ids(self, after: str | None = None, limit: int | None = None) -> list[str]:
        return [doc_id for (doc_id,) in self._documents(self._sql("read_doc_ids"), check_page(after, limit))]

    def digests(self, doc_ids: Sequence[str]) -> dict[str, str]:
        values = ([check_doc_id(doc_id) for doc_id in doc_ids],)
        return dict(self._documents(self._sql("read_document_digests"), values))

    def counts(self) -> StoreCounts:
        rows = self._fetch(self._sql("read_counts"), ())
        if not rows:
            raise gone(self.collection.name)
        documents, chunks = rows[0]
        return StoreCounts(documents=documents, chunks=chunks)

    def _write(self, chunks: Sequence[Chunk], embeddings: Embedding, exact_below: int | None) -> UpsertCounts:
        documents = make_rows(chunks, embeddings, self.collection.embed_dims, self.analyzer)
        return self._run(lambda connection: write_documents(connection, self._sql, documents, exact_below))

    def _nearest(self, connection: Any, condition: str, values: dict[str, Any]) -> list[Any]:
        if self._has_index(connection):
            rows = self._by_index(connection, self._sql("nearest", condition), values)
            if condition == NO_FILTER or len(rows) >= values["k"]:
                return rows
            # The rows that pass are so far from the query that the index gave up before it reached them.
        return _fetch_all(connection, self._sql("exact", condition), values)

    def _by_index(self, connection: Any, sql: str, values: dict[str, Any]) -> list[Any]:
        if values["fetch"] <= EF_SEARCH:
            return _fetch_all(connection, sql, values)
        with connection.transaction():
            wider = str(min(2 * values["fetch"], _EF_MAX))
            connection.execute("SELECT set_config('hnsw.ef_search', %s, true)", (wider,))
            return _fetch_all(connection, sql, values)

    def _has_index(self, connection: Any) -> bool:
        if not self._is_indexed and self._sql.has_vector_index:
            found = connection.execute(self._sql("read_is_indexed")).fetchone()
            self._is_indexed = found is not None and found[0]
        return self._is_indexed

    def _fused(
        self, connection: Any, terms: Sequence[str], query: Embedding, fetch: int, plan: RetrievalPlan
    ) -> list[Candidate]:
        values = {"query": query, "fetch": fetch, "most": 4 * plan.candidate_pool + 1000, "terms": list(terms)}
        while True:
            rows = _fetch_all(connection, self._sql("read_lists"), values)
            if not rows:
                raise gone(self.collection.name)
            ((chunks, length, near, *postings),) = rows
            sent = np.frombuffer(near or b"", [("place", ">i4"), ("dims", ">i4"), ("vector", ">f4", len(query))])
            blocks = zip(*(column or [] for column in postings), strict=True)
            matrix = sent["vector"].astype(np.float32)
            scored = zip(sent["place"].tolist(), cosines(matrix, query), np.linalg.norm(matrix, axis=1), strict=True)
            lists = {
                VECTOR: {place: score for place, score, has_vector in scored if has_vector},
                LEXICAL: _best(self._scores(blocks, chunks, length), plan.candidate_pool),
            }
            places = list({**lists[VECTOR], **lists[LEXICAL]})
            keys = {place: key for place, *key in _fetch_all(connection, self._sql("read_keys"), (places,))}
            if len(keys) < len(places):
                continue  # a chunk was replaced or deleted since, and a new place has its new form
            ranked = {
                name: sorted(scores.items(), key=lambda one: (-one[1], keys[one[0]]))[: plan.candidate_pool]
                for name, scores in lists.items()
            }
            method, params = plan.fusing
            fused = fused_scores(ranked, method, params)
            best = sorted(fused, key=lambda place: (-fused[place], keys[place]))[: plan.k]
            found = {row[0]: row[1:] for row in _fetch_all(connection, self._sql("read_places"), (best,))}
            if len(found) == len(best):
                known = {name: dict(ranked[name]) for name in sorted(ranked)}
                sources = [{name: of[place] for name, of in known.items() if place in of} for place in best]
                return [candidate(found[p], fused[p], own) for p, own in zip(best, sources, strict=True)]

    def _best_by_terms(self, connection: Any, terms: Sequence[str], k: int, filters: Filters) -> list[Any]:
        with connection.transaction():
            # All statements must see the same state.
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            rows = _fetch_all(connection, self._sql("read_postings"), {"terms": list(terms)})
            if not rows:
                return []
            scores = self._scores([row[:3] for row in rows], *rows[0][3:])
            if not filters.is_empty:
                scores[~self._passing(connection, scores, terms, filters)] = np.nan
            best = _best(scores, k)
            values = {"places": list(best), "scores": list(best.values()), "k": k}
            return _fetch_all(connection, self._sql("read_best"), values)

    def _scores(self, postings: Iterable[tuple[str, int, bytes]], chunks: int, terms: int) -> FloatArray:
        """BM25 by place, from blocks of the query's terms; NaN where a chunk holds none."""
        blocks: dict[str, list[tuple[int, bytes]]] = {}
        for term, count, content in postings:
            blocks.setdefault(term, []).append((count, content))
        decoded = [decode(blocks[term]) for term in blocks]
        size = 1 + max((int(one.places.max()) for one in decoded if len(one.places)), default=-1)
        return bm25(decoded, chunks=chunks, terms=terms, size=size)

    def _passing(self, connection: Any, scores: FloatArray, terms: Sequence[str], filters: Filters) -> BoolArray:
        """Which places pass the filters; where few chunks hold a term, which of those."""
        is_rare = bool(np.count_nonzero(~np.isnan(scores)) <= _RARE)
        terms_too = " AND tsv @@ %(any)s::tsquery" if is_rare else ""
        sql = self._sql("read_passing", filter_condition(filters) + terms_too)
        ((sent,),) = _fetch_all(connection, sql, {"any": " | ".join(f"'{term}'" for term in terms), **_values(filters)})
        places = np.frombuffer(sent or b"", dtype=">i4")
        passing = np.zeros(len(scores), dtype=np.bool_)
        passing[places[places < len(scores)]] = True
        return passing

    def _vectors(self, sent: Sequence[bytes]) -> Embedding:
        """Shape (len(sent), embed_dims), from pgvector's wire format: dims, zero, and big-endian float32 values."""
        matrix = np.frombuffer(b"".join(sent), dtype=">f4").reshape(len(sent), self.collection.embed_dims + 1)
        return matrix[:, 1:].astype(np.float32)

    def _documents(self, sql: str, values: Any) -> list[Any]:
        """Rows about documents. The statement returns one row of nulls for a collection that has none of them."""
        rows = self._fetch(sql, values)
        if not rows:
            raise gone(self.collection.name)
        return [row for row in rows if row[0] is not None]

    def _fetch(self, sql: str, values: Any) -> list[Any]:
        return self._run(lambda connection: _fetch_all(connection, sql, values))

    def _run(self, work: Callable[[Any], T]) -> T:
        try:
            found: T = self._run_on_server(work)
            return found
        except MissingTableError as error:
            raise gone(self.collection.name) from error


def _best(scores: FloatArray, k: int) -> dict[int, float]:
    """The ``k`` best scores by place, with all that tie with the last."""
    places = np.flatnonzero(~np.isnan(scores))
    if len(places) > k:
        places = places[scores[places] >= np.partition(scores[places], -k)[-k]]
    return dict(zip(places.tolist(), scores[places].tolist(), strict=True))


def _fetch_all(connection: Any, sql: str, values: Any) -> list[Any]:
    rows: list[Any] = connection.execute(sql, values, binary=True).fetchall()
    return rows


def _values(filters: Filters) -> dict[str, Any]:
    """Parameters of :func:`filter_condition`."""
    tags = {"tags_any": list(filters.tags_any), "tags_all": list(filters.tags_all)}
    return {**tags, "metadata": dump_json(filters.metadata)}


def _chunk(row: Sequence[Any]) -> Chunk:
    names = ("doc_id", "chunk_index", "content", "tags", "metadata", "start", "end")
    return Chunk(**dict(zip(names, row, strict=True)))
