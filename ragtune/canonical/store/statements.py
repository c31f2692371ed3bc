"""The SQL of one collection. The text holds only integers and constants of this module; all values are parameters."""

from __future__ import annotations

from importlib.resources import files

from ragtune.canonical.types import Filters

SCHEMA_VERSION = 4

FANOUT = 16
"""Number of writes whose blocks of postings are joined."""

BUILT = 99
"""Level of blocks that a rebuild makes; they are never joined."""

MARGIN = 16
"""Rows beyond k that a vector search reads: float32 sums of the server may order near-ties differently."""

NO_FILTER = "true"

COLUMN_TYPES = {
    "collection_id": "int4",
    "doc_id": "text",
    "chunk_index": "int4",
    "place": "int4",
    "content": "text",
    "tags": "text[]",
    "metadata": "jsonb",
    "span_start": "int4",
    "span_end": "int4",
    "embedding": "vector",
    "length": "int4",
    "lexemes": "text",
    "digest": "bytea",
}
"""Columns that :meth:`Statements.copy_rows` takes, in order."""

_ROW = "c.doc_id, c.chunk_index, c.content, c.tags, c.metadata, c.span_start, c.span_end"
_SLACK = 5e-6  # more than the error of the server's distances between unit vectors


def read_sql(name: str, **values: int | str) -> str:
    """A file of this folder, its placeholders filled with identifiers and numbers of this package."""
    return (files("ragtune.canonical.store") / name).read_text(encoding="utf-8").format(**values)


def filter_condition(filters: Filters) -> str:
    """The WHERE condition of rule D7 with the parameters ``tags_any``, ``tags_all`` and ``metadata``."""
    parts = []
    if filters.tags_any:
        parts.append("tags && %(tags_any)s::text[]")
    if filters.tags_all:
        parts.append("tags @> %(tags_all)s::text[]")
    if filters.metadata:
        # Containment uses the index, but it also holds for parts of a value, so equality decides.
        parts.append(
            "metadata @> %(metadata)s::jsonb AND NOT EXISTS (SELECT 1 FROM jsonb_each(%(metadata)s::jsonb) wanted "
            "WHERE metadata -> wanted.key IS DISTINCT FROM wanted.value)"
        )
    return "(" + " AND ".join(parts) + ")" if parts else NO_FILTER


class Statements:
    """SQL for the tables of a collection.

    Args:
        collection_id: the collection's key.
        dims: length of the collection's vectors.
    """

    def __init__(self, collection_id: int, dims: int) -> None:
        self.collection_id = int(collection_id)
        self.dims = int(dims)
        self._name = f"chunks_{self.collection_id}"
        self._partition = f"ragtune.{self._name}"
        self._postings = f"ragtune.postings_{self.collection_id}"
        self._own = f"collection_id = {self.collection_id}"
        # pgvector indexes vectors of up to 2000 dims, and half-precision vectors of up to 4000.
        kind = "vector" if self.dims <= 2000 else "halfvec" if self.dims <= 4000 else None
        self._indexed_as = None if kind is None else f"{kind}({self.dims})"
        self._operators = f"{kind}_cosine_ops"

    @property
    def has_vector_index(self) -> bool:
        """Whether pgvector can index vectors of this length. If not, every vector search is exact."""
        return self._indexed_as is not None

    # Tables and indexes

    def create_tables(self) -> str:
        return read_sql(
            "collection.sql",
            partition=self._partition,
            postings=self._postings,
            collection_id=self.collection_id,
            dims=self.dims,
            built=BUILT,
        )

    def drop_tables(self) -> str:
        return f"DROP TABLE {self._partition}, {self._postings}; DELETE FROM ragtune.collections WHERE {self._own}"

    def create_indexes(self) -> list[str]:
        """The secondary indexes: of vectors, lexemes, tags and metadata."""
        columns = {"tsv": "tsv", "tags": "tags", "metadata": "metadata jsonb_path_ops"}
        # Without fastupdate a search never reads through a list of pending entries.
        indexes = [
            f"CREATE INDEX {self._name}_{name} ON {self._partition} USING gin ({column}) WITH (fastupdate = off)"
            for name, column in columns.items()
        ]
        if self.has_vector_index:
            vectors = f"(embedding::{self._indexed_as}) {self._operators}"
            indexes.append(f"CREATE INDEX {self._name}_hnsw ON {self._partition} USING hnsw ({vectors})")
        return indexes

    def set_indexed(self) -> str:
        return f"UPDATE ragtune.collections SET is_indexed = true WHERE {self._own}; ANALYZE {self._partition}"

    # Writing

    def lock(self) -> str:
        return f"SELECT chunks, places, gone, is_indexed FROM ragtune.collections WHERE {self._own} FOR NO KEY UPDATE"

    def count(self) -> str:
        """Adds to the counters and counts the write."""
        names = ("documents", "chunks", "terms", "places", "gone")
        changes = ", ".join(f"{name} = {name} + %({name})s" for name in names)
        return f"UPDATE ragtune.collections SET {changes}, writes = writes + 1 WHERE {self._own} RETURNING writes"

    def read_digests(self) -> str:
        return f"SELECT doc_id, chunk_index, digest FROM {self._partition} WHERE {self._own} AND doc_id = ANY(%s)"

    def write_documents(self) -> str:
        return (
            "INSERT INTO ragtune.documents (collection_id, doc_id, digest, metadata) "
            f"SELECT {self.collection_id}, * FROM unnest(%s::text[], %s::text[], %s::jsonb[]) "
            "ON CONFLICT (collection_id, doc_id) DO UPDATE SET digest = excluded.digest, metadata = excluded.metadata"
        )

    def delete_documents(self) -> str:
        return f"DELETE FROM ragtune.documents WHERE {self._own} AND doc_id = ANY(%s)"

    def delete_rows(self) -> str:
        """Deletes chunks with their postings and returns how many terms they had."""
        return (
            f"WITH gone AS (DELETE FROM {self._partition} c "
            "USING unnest(%s::text[], %s::int[]) old (doc_id, chunk_index) "
            f"WHERE c.{self._own} AND c.doc_id = old.doc_id AND c.chunk_index = old.chunk_index "
            "RETURNING c.place, c.tsv, c.length), "
            f"unposted AS (INSERT INTO {self._postings} (term, n, level, content) "
            "SELECT e.lexeme, -count(*), 0, string_agg(int8send(place::bigint << 32), ''::bytea) "
            "FROM gone, LATERAL unnest(tsv) e GROUP BY e.lexeme) "
            "SELECT coalesce(sum(length), 0)::bigint FROM gone"
        )

    def copy_rows(self) -> str:
        return f"COPY {self._partition} ({', '.join(COLUMN_TYPES)}) FROM STDIN (FORMAT binary)"

    def add_postings(self) -> str:
        """Adds postings of the chunks whose place is in [``first``, ``end``)."""
        posting = "(c.place::bigint << 32) | (cardinality(e.positions)::bigint << 24) | c.length"
        return (
            f"INSERT INTO {self._postings} (term, n, level, content) "
            f"SELECT e.lexeme, count(*), %(level)s, string_agg(int8send({posting}), ''::bytea) "
            f"FROM {self._partition} c, LATERAL unnest(c.tsv) e "
            f"WHERE c.{self._own} AND c.place >= %(first)s AND c.place < %(end)s GROUP BY e.lexeme"
        )

    def join_postings(self) -> str:
        """Joins the blocks of a level to blocks of the next."""
        return (
            f"WITH old AS (DELETE FROM {self._postings} WHERE level = %(level)s RETURNING term, n, content) "
            f"INSERT INTO {self._postings} (term, n, level, content) "
            "SELECT term, sum(n), %(level)s + 1, string_agg(content, ''::bytea) FROM old GROUP BY term, n < 0"
        )

    def clear_postings(self) -> str:
        return f"DELETE FROM {self._postings}; UPDATE ragtune.collections SET writes = 0, gone = 0 WHERE {self._own}"

    # Reading

    def read_is_indexed(self) -> str:
        return f"SELECT is_indexed FROM ragtune.collections WHERE {self._own}"

    def read_counts(self) -> str:
        return f"SELECT documents, chunks FROM ragtune.collections WHERE {self._own}"

    def read_chunks(self) -> str:
        return f"SELECT {_ROW} FROM {self._partition} c WHERE {self._own} AND doc_id = %s ORDER BY chunk_index"

    def read_doc_ids(self) -> str:
        """A page of the ids that follow a text, in the order of the primary key. A limit of null reads all."""
        return self._read_documents("doc_id", "doc_id > %s ORDER BY doc_id LIMIT %s::bigint")

    def read_document_digests(self) -> str:
        return self._read_documents("doc_id, digest", "doc_id = ANY(%s)")

    def _read_documents(self, columns: str, which: str) -> str:
        """One row of nulls where there is no such document, no row where there is no such collection."""
        found = f"SELECT {columns} FROM ragtune.documents WHERE {self._own} AND {which}"
        return (
            f"SELECT d.* FROM ragtune.collections c LEFT JOIN LATERAL ({found}) d ON true "
            f"WHERE c.{self._own} ORDER BY d.doc_id"
        )

    # Vector search

    def exact(self, condition: str) -> str:
        """Compares every row, and returns the ``k`` closest and those that may tie with the last.

        The planner cannot use the index, which is on an expression. A zero vector has the distance NaN.
        """
        kth = "SELECT distance FROM near WHERE distance <> 'NaN' ORDER BY distance LIMIT %(k)s"
        return (
            "WITH near AS MATERIALIZED (SELECT doc_id, chunk_index, embedding <=> %(query)s AS distance "
            f"FROM {self._partition} WHERE {condition}) "
            f"SELECT {_ROW}, vector_send(c.embedding) FROM (SELECT doc_id, chunk_index FROM near "
            f"WHERE distance <= (SELECT max(distance) + {_SLACK} FROM ({kth}) best) "
            "ORDER BY distance, doc_id, chunk_index LIMIT %(most)s) top "
            f"JOIN {self._partition} c ON c.{self._own} AND c.doc_id = top.doc_id AND c.chunk_index = top.chunk_index"
        )

    def nearest(self, condition: str) -> str:
        """Searches the HNSW index."""
        distance = f"(embedding::{self._indexed_as}) <=> (%(query)s)::{self._indexed_as}"
        return (
            f"SELECT * FROM (SELECT {_ROW}, vector_send(c.embedding) FROM {self._partition} c WHERE {condition} "
            f"ORDER BY {distance} FETCH FIRST %(fetch)s ROWS WITH TIES) found LIMIT %(most)s"
        )

    def count_passing(self, condition: str) -> str:
        """Counts the rows that pass a filter, up to ``limit``.

        What is materialized is planned as a whole. A plan for the first rows alone would read the table from its
        beginning, and so all of it where such rows are at its end.
        """
        passing = f"SELECT 1 FROM {self._partition} WHERE {condition}"
        return (
            f"WITH passing AS MATERIALIZED ({passing}) SELECT count(*) FROM (SELECT 1 FROM passing LIMIT %(limit)s) few"
        )

    # Lexical search

    def read_postings(self) -> str:
        """Blocks of the given terms, with the collection's numbers of chunks and terms."""
        return (
            f"SELECT p.term, p.n, p.content, c.chunks, c.terms FROM ragtune.collections c, {self._postings} p "
            f"WHERE c.{self._own} AND p.term = ANY(%(terms)s)"
        )

    def read_passing(self, condition: str, with_terms: bool) -> str:
        """Places of the chunks that pass a filter, 4 bytes each; with terms, of those that hold one of ``any``."""
        terms = " AND tsv @@ %(any)s::tsquery" if with_terms else ""
        return f"SELECT string_agg(int4send(place), ''::bytea) FROM {self._partition} WHERE {condition}{terms}"

    def read_best(self) -> str:
        """The ``k`` best of the chunks at given places with given scores (rule D12)."""
        return (
            f"SELECT {_ROW}, found.score "
            "FROM unnest(%(places)s::int[], %(scores)s::float8[]) found (place, score) "
            f"JOIN {self._partition} c ON c.{self._own} AND c.place = found.place "
            "ORDER BY found.score DESC, c.doc_id, c.chunk_index LIMIT %(k)s"
        )
