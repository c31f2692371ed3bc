"""The SQL of one collection. Only integers and our own constants are ever put into it; all values are parameters."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from ragtune.canonical.store.lexical import K1, B
from ragtune.canonical.store.postings import BUILT, PostingStatements, first_that_pass
from ragtune.canonical.types import Filters

SCHEMA_VERSION = 3
MARGIN = 16
"""Rows beyond k that a vector search reads: the server's float32 sums may order near-ties otherwise than we do."""

_SLACK = 5e-6  # more than the server's distances of unit vectors can be off
ROW = "c.doc_id, c.chunk_index, c.content, c.tags, c.metadata, c.span_start, c.span_end"
_COLUMNS = (
    "collection_id, doc_id, chunk_index, content, tags, metadata, span_start, span_end, embedding, length, lexemes, "
    "digest"
)
COLUMN_TYPES = ("int4", "text", "int4", "text", "text[]", "jsonb", "int4", "int4", "vector", "int4", "text", "bytea")
"""Of the columns that :meth:`Statements.copy_rows` takes, in order."""


def read_sql(name: str, **values: int | str) -> bytes:
    """A file of this folder with its placeholders filled by our own identifiers and numbers."""
    text = (files("ragtune.canonical.store") / name).read_text(encoding="utf-8")
    return text.format(**values).encode()


class Statements:
    """SQL over the partition of a collection.

    Args:
        collection_id: the collection's key.
        dims: length of the collection's vectors.
    """

    def __init__(self, collection_id: int, dims: int) -> None:
        self.collection_id = int(collection_id)
        self.dims = int(dims)
        self.partition = f"ragtune.chunks_{self.collection_id}"
        self._mine = f"collection_id = {self.collection_id}"
        # pgvector indexes vectors of up to 2000 dims, half-precision ones of up to 4000.
        kind = "vector" if self.dims <= 2000 else "halfvec" if self.dims <= 4000 else None
        self._indexed_as = None if kind is None else f"{kind}({self.dims})"
        self._operators = f"{kind}_cosine_ops"
        self.postings = PostingStatements(self.collection_id)
        self.exact = cache(self._exact)
        self.nearest = cache(self._nearest)
        self.lexical = cache(self._lexical)

    @property
    def has_vector_index(self) -> bool:
        """Whether pgvector can index vectors of this length; if not, every vector search is exact."""
        return self._indexed_as is not None

    def create_partition(self) -> bytes:
        return read_sql("partition.sql", partition=self.partition, collection_id=self.collection_id, dims=self.dims)

    def create_postings(self) -> bytes:
        return read_sql("postings.sql", collection_id=self.collection_id, built=BUILT)

    def drop_tables(self) -> list[bytes]:
        return [f"DROP TABLE {self.partition}".encode(), *self.postings.drop()]

    def drop_documents(self) -> bytes:
        return f"DELETE FROM ragtune.documents WHERE {self._mine}".encode()

    def drop_collection(self) -> bytes:
        return f"DELETE FROM ragtune.collections WHERE {self._mine}".encode()

    def create_indexes(self) -> list[bytes]:
        """SQL that makes the secondary indexes: vectors, lexemes, tags, metadata."""
        name, table = f"chunks_{self.collection_id}", self.partition
        # Without fastupdate a search never has to read through a list of pending entries.
        gin = [
            f"CREATE INDEX {name}_tsv ON {table} USING gin (tsv) WITH (fastupdate = off)",
            f"CREATE INDEX {name}_tags ON {table} USING gin (tags) WITH (fastupdate = off)",
            f"CREATE INDEX {name}_metadata ON {table} USING gin (metadata jsonb_path_ops) WITH (fastupdate = off)",
        ]
        hnsw = f"CREATE INDEX {name}_hnsw ON {table} USING hnsw ((embedding::{self._indexed_as}) {self._operators})"
        return [statement.encode() for statement in ([hnsw] if self.has_vector_index else []) + gin]

    def analyze(self) -> bytes:
        return f"ANALYZE {self.partition}".encode()

    def lock(self) -> bytes:
        return (
            "SELECT chunks, is_indexed, is_posted, places FROM ragtune.collections "
            f"WHERE {self._mine} FOR NO KEY UPDATE"
        ).encode()

    def read_digests(self) -> bytes:
        return (
            f"SELECT doc_id, chunk_index, digest FROM {self.partition} WHERE {self._mine} AND doc_id = ANY(%s)".encode()
        )

    def write_documents(self) -> bytes:
        return (
            "INSERT INTO ragtune.documents (collection_id, doc_id, digest, metadata) "
            f"SELECT {self.collection_id}, * FROM unnest(%s::text[], %s::text[], %s::jsonb[]) "
            "ON CONFLICT (collection_id, doc_id) DO UPDATE SET digest = excluded.digest, metadata = excluded.metadata"
        ).encode()

    def delete_rows(self, is_posted: bool) -> bytes:
        return (
            f"WITH gone AS (DELETE FROM {self.partition} c "
            "USING unnest(%s::text[], %s::int[]) old (doc_id, chunk_index) "
            f"WHERE c.{self._mine} AND c.doc_id = old.doc_id AND c.chunk_index = old.chunk_index "
            f"RETURNING c.doc_id, c.chunk_index, c.tsv, c.length){self._unposted(is_posted)} "
            "SELECT coalesce(sum(length), 0)::bigint FROM gone"
        ).encode()

    def delete_documents(self, is_posted: bool) -> bytes:
        return (
            f"WITH gone AS (DELETE FROM {self.partition} WHERE {self._mine} AND doc_id = ANY(%(doc_ids)s) "
            f"RETURNING doc_id, chunk_index, tsv, length){self._unposted(is_posted)}, "
            "documents AS (DELETE FROM ragtune.documents "
            f"WHERE {self._mine} AND doc_id = ANY(%(doc_ids)s) RETURNING doc_id) "
            "SELECT (SELECT count(*) FROM documents), count(*), coalesce(sum(length), 0)::bigint FROM gone"
        ).encode()

    def _unposted(self, is_posted: bool) -> str:
        return f", {self.postings.remove('gone')}" if is_posted else ""

    def copy_rows(self) -> bytes:
        return f"COPY {self.partition} ({_COLUMNS}) FROM STDIN (FORMAT binary)".encode()

    def count(self) -> bytes:
        """SQL that adds to the collection's counters."""
        return (
            "UPDATE ragtune.collections SET documents = documents + %s, chunks = chunks + %s, terms = terms + %s "
            f"WHERE {self._mine}"
        ).encode()

    def set_indexed(self) -> bytes:
        return f"UPDATE ragtune.collections SET is_indexed = true WHERE {self._mine}".encode()

    def read_is_indexed(self) -> bytes:
        return f"SELECT is_indexed FROM ragtune.collections WHERE {self._mine}".encode()

    def read_counts(self) -> bytes:
        return f"SELECT documents, chunks FROM ragtune.collections WHERE {self._mine}".encode()

    def read_chunks(self) -> bytes:
        return f"SELECT {ROW} FROM {self.partition} c WHERE {self._mine} AND doc_id = %s ORDER BY chunk_index".encode()

    def read_doc_ids(self) -> bytes:
        """A page: ids beyond a text, at most so many, or all for null. Keys are in this order, so no more are read."""
        return self._documents("doc_id", "doc_id > %s ORDER BY doc_id LIMIT %s::bigint")

    def read_document_digests(self) -> bytes:
        return self._documents("doc_id, digest", "doc_id = ANY(%s)")

    def _documents(self, columns: str, which: str) -> bytes:
        """A row of nulls where there is no such document, none where there is no such collection."""
        found = f"SELECT {columns} FROM ragtune.documents WHERE {self._mine} AND {which}"
        return (
            f"SELECT d.* FROM ragtune.collections c LEFT JOIN LATERAL ({found}) d ON true "
            f"WHERE c.{self._mine} ORDER BY d.doc_id"
        ).encode()

    def _exact(self, condition: str) -> bytes:
        """Every row is compared. The plain column is no indexed expression, so the planner cannot use the index."""
        near = (
            f"SELECT doc_id, chunk_index, embedding <=> %(query)s AS distance FROM {self.partition} WHERE {condition}"
        )
        return f"WITH near AS MATERIALIZED ({near}) {self._closest()}".encode()

    def _nearest(self, condition: str) -> bytes:
        """By the index; where a filter leaves no more than ``exact_below`` rows, those are compared one by one.

        With a filter, the last column says whether all rows that pass were compared.
        """
        distance = f"(embedding::{self._indexed_as}) <=> (%(query)s)::{self._indexed_as}"
        index = (
            f"SELECT {ROW}, vector_send(c.embedding) FROM {self.partition} c WHERE {condition} "
            f"ORDER BY {distance} FETCH FIRST %(fetch)s ROWS WITH TIES"
        )
        bounded = f"SELECT * FROM ({index}) found LIMIT %(most)s"
        if condition == NO_FILTER:
            return bounded.encode()
        columns = "doc_id, chunk_index, embedding <=> %(query)s AS distance"
        near = first_that_pass(self.partition, columns, condition, "%(exact_below)s + 1")
        is_small = "(SELECT count(*) FROM near) <= %(exact_below)s"
        return (
            f"WITH near AS MATERIALIZED ({near}) SELECT *, true FROM ({self._closest()}) few WHERE {is_small} "
            f"UNION ALL SELECT *, false FROM ({bounded}) many WHERE NOT {is_small}"
        ).encode()

    def _closest(self) -> str:
        """The k rows of ``near`` that are closest, and those that may tie with the last; a zero vector's NaN is not."""
        kth = "SELECT distance FROM near WHERE distance <> 'NaN' ORDER BY distance LIMIT %(k)s"
        return (
            f"SELECT {ROW}, vector_send(c.embedding) FROM (SELECT doc_id, chunk_index FROM near "
            f"WHERE distance <= (SELECT max(distance) + {_SLACK} FROM ({kth}) best) "
            "ORDER BY distance, doc_id, chunk_index LIMIT %(most)s) top "
            f"JOIN {self.partition} c ON c.{self._mine} AND c.doc_id = top.doc_id AND c.chunk_index = top.chunk_index"
        )

    def _lexical(self, condition: str, terms: int) -> bytes:
        """BM25 of all rows with any term, where there are no postings; df is counted among them, which are all."""
        places = range(terms)
        tf = ", ".join(f"ts_rank_cd('{{1,1,1,1}}', tsv, %(term{i})s::tsquery, 0)::float8 AS tf{i}" for i in places)
        df = ", ".join(f"count(*) FILTER (WHERE tf{i} > 0) AS df{i}" for i in places)
        idf = ", ".join(f"ln(1.0::float8 + (size.n - df{i} + 0.5) / (df{i} + 0.5)) AS idf{i}" for i in places)
        score = " + ".join(f"idf{i} * (tf{i} * {K1 + 1.0}::float8) / (tf{i} + norm)" for i in places)
        return (
            f"WITH size AS (SELECT chunks::float8 AS n, terms::float8 / chunks AS average FROM ragtune.collections "
            f"WHERE {self._mine} AND chunks > 0), "
            f"hit AS MATERIALIZED (SELECT doc_id, chunk_index, {condition} AS kept, "
            f"{K1}::float8 * ({1.0 - B}::float8 + {B}::float8 * length / size.average) AS norm, {tf} "
            f"FROM {self.partition}, size WHERE tsv @@ %(any)s::tsquery), "
            f"df AS (SELECT {df} FROM hit), idf AS (SELECT {idf} FROM df, size), "
            f"top AS (SELECT doc_id, chunk_index, round(({score}) * 1e6::float8) AS score FROM hit, idf WHERE kept "
            "ORDER BY score DESC, doc_id, chunk_index LIMIT %(k)s) "
            f"SELECT {ROW}, top.score FROM top JOIN {self.partition} c "
            f"ON c.{self._mine} AND c.doc_id = top.doc_id AND c.chunk_index = top.chunk_index"
        ).encode()


NO_FILTER = "true"


def filter_condition(filters: Filters) -> str:
    """The WHERE condition of rule D7 over the parameters ``tags_any``, ``tags_all`` and ``metadata``."""
    parts = []
    if filters.tags_any:
        parts.append("tags && %(tags_any)s::text[]")
    if filters.tags_all:
        parts.append("tags @> %(tags_all)s::text[]")
    if filters.metadata:
        # Containment finds rows by the index, but holds for parts of a value too: equality decides.
        parts.append(
            "metadata @> %(metadata)s::jsonb AND NOT EXISTS (SELECT 1 FROM jsonb_each(%(metadata)s::jsonb) wanted "
            "WHERE metadata -> wanted.key IS DISTINCT FROM wanted.value)"
        )
    return "(" + " AND ".join(parts) + ")" if parts else NO_FILTER
