"""Search of a table that exists in a PostgreSQL database: nothing is copied, created or written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from math import isnan
from typing import Any

from ragtune.canonical.embedding import dimension
from ragtune.canonical.normalization import check_string
from ragtune.canonical.store.base import BaseSearcher
from ragtune.canonical.store.database import clean, read_dsn
from ragtune.canonical.store.rows import candidates, check_filters, check_k, check_query, dump_json
from ragtune.canonical.types import Candidate, Embedding, Filters
from ragtune.core.errors import CollectionMismatchError, ConfigError, InputError, StoreError
from ragtune.core.interfaces import BaseEmbedder

_ROW = "t.{id}::text, 0, coalesce(t.{text}::text, ''), ARRAY[]::text[], '{{}}'::jsonb"
_PASSES = "t.{id} IS NOT NULL AND (%(metadata)s::jsonb = '{{}}' OR to_jsonb(t) @> %(metadata)s::jsonb)"
_VECTORS = """
SELECT {row}, 1 - (t.{vector} <=> %(query)s::{kind}) FROM {table} t
WHERE {passes} AND t.{vector} IS NOT NULL ORDER BY t.{vector} <=> %(query)s::{kind} LIMIT %(k)s
"""
_ARRAYS = """
SELECT * FROM (
    SELECT {row}, (
        SELECT sum(a * b) / nullif(sqrt(sum(a * a)), 0)
        FROM unnest(t.{vector}::float8[], translate(%(query)s, '[]', '{{}}')::float8[]) x (a, b)
    ) AS score FROM {table} t WHERE {passes}
) found WHERE score IS NOT NULL ORDER BY score DESC LIMIT %(k)s
"""
_FIRST = "SELECT pg_typeof({vector})::text, {vector} FROM {table} WHERE {vector} IS NOT NULL LIMIT 1"
_WORDS = """
WITH wanted AS (SELECT lexeme FROM unnest(to_tsvector(%(language)s::regconfig, %(query)s))),
matching AS (
    SELECT t.{id} AS id, {document} AS document FROM {table} t
    WHERE {passes} AND {document} @@ (SELECT string_agg(quote_literal(lexeme), ' | ')::tsquery FROM wanted)
),
found AS (
    SELECT id, lexeme, coalesce(cardinality(positions), 1) AS tf, length(document) AS length
    FROM matching, unnest(document) WHERE lexeme IN (SELECT lexeme FROM wanted)
),
idf AS (
    SELECT lexeme, ln(1 + ((SELECT count(*) FROM {table}) - count(*) + 0.5) / (count(*) + 0.5)) AS idf
    FROM found GROUP BY lexeme
),
best AS (
    SELECT id, sum(idf * tf * 2.5 / (tf + 1.5 * (0.25 + 0.75 * length / (SELECT avg(length) FROM found)))) AS score
    FROM found JOIN idf USING (lexeme) GROUP BY id ORDER BY score DESC LIMIT %(k)s
)
SELECT {row}, round(score::numeric, 6)::float8 FROM best JOIN {table} t ON t.{id} = best.id
"""


class AttachedTable(BaseSearcher):
    """A table or view with ids, texts and, if named, vectors; :func:`attach` opens it.

    Lexical search is BM25 over ``tsv``, else over ``to_tsvector(language, text)``; an index on either is used. The
    average length is that of matching rows. Vector search uses pgvector's operator and the table's own index. Vectors
    in an array of numbers need no extension, and every row is compared. Filters are on columns.
    """

    def __init__(self, connection: Any, embedder: BaseEmbedder, language: str, statements: dict[str, Any]) -> None:
        self.embedder = embedder
        self.settings = {}
        self._connection = connection
        self._language = language
        self._statements = statements

    def vector_candidates(self, embedding: Embedding, k: int, filters: Filters) -> list[Candidate]:
        if "vector" not in self._statements:
            raise ConfigError("--vector COLUMN is missing: the column of the table's vectors")
        query = check_query(embedding, len(embedding))
        return self._search("vector", str(query.tolist()), k, filters) if query.any() else []

    def lexical_candidates(self, query: str, k: int, filters: Filters) -> list[Candidate]:
        return self._search("lexical", check_string(query, "query"), k, filters)

    def _search(self, name: str, query: Any, k: int, filters: Filters) -> list[Candidate]:
        if filters.tags_any or filters.tags_all:
            raise InputError("tags: a table has none; filter by its columns")
        metadata = dump_json(check_filters(filters).metadata)
        values = {"query": query, "k": check_k(k), "metadata": metadata, "language": self._language}
        rows = self._connection.execute(self._statements[name], values).fetchall()
        found = ((row, round(row[-1], 6)) for row in rows if not isnan(row[-1]))  # a vector of zeros has no cosine
        return candidates(found, k, name)


@contextmanager
def attach(
    dsn: str | None,
    embedder: BaseEmbedder,
    table: str,
    id: str = "id",
    text: str = "text",
    tsv: str | None = None,
    vector: str | None = None,
    language: str = "english",
) -> Iterator[AttachedTable]:
    """Open a table for searches, in a session that cannot write.

    Args:
        dsn: connection string; None is ``$RAGTUNE_DSN``.
        embedder: the model that made the table's vectors; it embeds the questions.
        table: name, with its schema if that is not on the search path.
        id, text: columns of unique ids and of texts.
        tsv: column of a ``tsvector`` of the texts, e.g. a generated one; None makes one of each text in each search.
        vector: column of vectors: ``vector`` or ``halfvec`` of pgvector, or an array of numbers; None has none.
        language: text search configuration.

    Raises:
        ConfigError: without a connection string.
        CollectionMismatchError: if the vectors have another length than the embedder's.
        StoreError: if the database fails, or there is no such table or column.

    Examples:
        >>> from ragtune.canonical.store.attached import attach
        >>> from ragtune.embedders.hashing import HashingEmbedder
        >>> with attach("dbname=app", HashingEmbedder(), "public.articles", text="body") as table:  # doctest: +SKIP
        ...     table.lexical_candidates("green tea", 5, Filters())
    """
    if not (given := dsn or os.environ.get("RAGTUNE_DSN")):
        raise ConfigError("--table needs the server of the table: --dsn or RAGTUNE_DSN")
    psycopg, secrets = read_dsn(given)
    sql = psycopg.sql

    def quoted(*names: str) -> Any:
        return sql.Identifier(*(name.replace("%", "%%") for name in names))

    names = {"table": quoted(*table.split(".")), "id": quoted(id), "text": quoted(text)}
    names |= {"row": sql.SQL(_ROW).format(**names), "passes": sql.SQL(_PASSES).format(**names)}
    made = sql.SQL("to_tsvector(%(language)s::regconfig, t.{}::text)").format(names["text"])
    names["document"] = made if tsv is None else sql.SQL("t.{}").format(quoted(tsv))
    try:
        with psycopg.connect(given, autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = on")
            statements = {"lexical": sql.SQL(_WORDS).format(**names)}
            if vector is not None:
                names["vector"] = quoted(vector)
                kind, value = connection.execute(sql.SQL(_FIRST).format(**names), ()).fetchone() or ("vector", None)
                _check_dims(value, embedder, f"{table}.{vector}")
                statements["vector"] = sql.SQL(_ARRAYS if "[" in kind else _VECTORS).format(**names, kind=sql.SQL(kind))
            yield AttachedTable(connection, embedder, language, statements)
    except psycopg.Error as error:
        raise StoreError(f"PostgreSQL: {clean(error, secrets)}") from None


def _check_dims(value: Any, embedder: BaseEmbedder, column: str) -> None:
    dims = len(value) if isinstance(value, list) else str(value).count(",") + 1
    if value is not None and dims != (wanted := dimension(embedder)):
        raise CollectionMismatchError(
            f"{column} has vectors of {dims} dims; the embedder {embedder.name!r} has {wanted}"
        )
