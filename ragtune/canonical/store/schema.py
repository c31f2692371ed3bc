"""Making the schema ``ragtune``, and checking that an existing one is ours."""

from __future__ import annotations

import logging
from typing import Any

from ragtune.canonical.analyzers import load_analyzer
from ragtune.canonical.store.statements import SCHEMA_VERSION, Statements, read_sql
from ragtune.canonical.store.writing import IndexPolicy, make_postings
from ragtune.core.errors import StoreError

_LOCK = 0x7261677475  # any number that everybody agrees on
_UPGRADED = (1, 2)  # versions of the schema that are brought up to date
_PGVECTOR_MIN = (0, 8)  # iterative index scans
_log = logging.getLogger(__name__)


def ensure_schema(connection: Any, policy: IndexPolicy) -> None:
    """Make the schema if it is missing, or bring an earlier one up to date; several processes may do so at once.

    Where it is there and up to date, no right to make one is needed. Bringing it up to date takes minutes where
    collections are large, which the log tells; cut short, it leaves the database as it was.

    Raises:
        StoreError: if the schema is of another version, pgvector too old, or the encoding not UTF8.
    """
    (encoding,) = connection.execute("SELECT current_setting('server_encoding')").fetchone()
    if encoding != "UTF8":
        raise StoreError(f"the database's encoding is {encoding}: allowed is UTF8")
    if not _exists(connection):
        with connection.transaction():
            lock_schema(connection)
            if not _exists(connection):
                connection.execute(read_sql("schema.sql", version=SCHEMA_VERSION))
    version = _version(connection)
    if version in _UPGRADED:
        with connection.transaction():
            lock_schema(connection)
            version = _version(connection)
            if version in _UPGRADED:
                _upgrade(connection, version, policy)
                version = SCHEMA_VERSION
    if version != SCHEMA_VERSION:
        raise StoreError(f"the database's schema ragtune is of version {version}: allowed is {SCHEMA_VERSION}")
    (extension,) = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
    if tuple(map(int, extension.split(".")[:2])) < _PGVECTOR_MIN:
        raise StoreError(f"pgvector is of version {extension}: allowed is 0.8 or later")


def _upgrade(connection: Any, version: int, policy: IndexPolicy) -> None:
    connection.execute("SET LOCAL statement_timeout = 0")  # a limit of requests
    connection.execute(read_sql(f"upgrade_{version}.sql", version=SCHEMA_VERSION, analyzer=_analyzer()))
    found = connection.execute(
        "SELECT collection_id, embed_dims, name, chunks FROM ragtune.collections WHERE chunks > 0 ORDER BY name"
    ).fetchall()
    _log.warning(
        "the database's schema is brought from version %d to %d: postings are made anew, once, which takes minutes for "
        "a million chunks (collections: %d, chunks: %s)",
        version,
        SCHEMA_VERSION,
        len(found),
        f"{sum(row[-1] for row in found):,}",
    )
    for collection_id, dims, name, chunks in found:
        sql = Statements(collection_id, dims)
        for statement in sql.postings.drop():
            connection.execute(statement)
        for end in make_postings(connection, sql, policy, chunks):
            _log.warning("%r: %s of %s chunks have postings", name, f"{end:,}", f"{chunks:,}")


def lock_schema(connection: Any) -> None:
    """Keep all others from making or dropping tables until the transaction ends."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))


def _version(connection: Any) -> int:
    (version,) = connection.execute("SELECT version FROM ragtune.schema_version").fetchone()
    return int(version)


def _analyzer() -> str:
    """What collections were analyzed by before they said so, with the stemmer that is installed now."""
    return load_analyzer("english-1").identity


def _exists(connection: Any) -> bool:
    # Not to_regclass, which may still remember from before the wait for the lock that there is none.
    sql = "SELECT count(*) FROM pg_catalog.pg_tables WHERE schemaname = 'ragtune' AND tablename = 'schema_version'"
    (found,) = connection.execute(sql).fetchone()
    return bool(found)
