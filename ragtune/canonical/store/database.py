"""The canonical collections of a PostgreSQL server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ragtune.canonical.analyzers import check_same, describe, unknown
from ragtune.canonical.permit import current
from ragtune.canonical.store.base import BaseDatabase
from ragtune.canonical.store.connections import Connections
from ragtune.canonical.store.postgres import PostgresStore
from ragtune.canonical.store.statements import SCHEMA_VERSION, Statements, read_sql
from ragtune.canonical.types import Collection
from ragtune.core.arguments import check_count
from ragtune.core.errors import StoreError
from ragtune.core.interfaces import BaseEmbedder

_LOCK = 0x7261677475  # any number that all processes agree on
_PGVECTOR_MIN = (0, 8)  # has iterative index scans


class PostgresDatabase(BaseDatabase):
    """Collections in the schema ``ragtune`` of a PostgreSQL database with pgvector 0.8 or later.

    The schema is created if it is missing. Search settings belong to the session, so a pooler in between must pool by
    session, not by transaction. Safe to use from several threads. No error or log has the DSN's password.

    A collection of more than ``exact_below`` chunks gets indexes. The server cancels a statement after
    ``statement_timeout_s`` (0.001 to 2147483.647) and undoes its transaction; None keeps the server's own setting.
    """

    def __init__(
        self,
        dsn: str,
        pool_size: int = 8,
        exact_below: int = 2000,
        on_close: Callable[[], None] | None = None,
        statement_timeout_s: float | None = None,
    ) -> None:
        self._exact_below = check_count("postgres exact_below", exact_below)
        self._on_close = on_close
        self._connections = Connections(dsn, pool_size, statement_timeout_s)
        self._connections.start(_ensure_schema)

    def open(
        self, name: str, embedder: BaseEmbedder, *, create: bool = False, analyzer: str | None = None
    ) -> PostgresStore:
        wanted = describe(name, embedder, analyzer)
        found = self._connections.run(lambda connection: _find(connection, name))
        if found is None and create:
            found = self._connections.run(lambda connection: _create(connection, wanted))
        if found is None:
            raise unknown(name, [collection.name for collection in self.collections()])
        collection_id, kept = found
        sql = Statements(collection_id, kept.embed_dims)
        used = check_same(kept, wanted, analyzer)
        return PostgresStore(self._connections, sql, kept, embedder, used, self._exact_below)

    def collections(self) -> list[Collection]:
        sql = "SELECT name, embed_model, embed_dims, analyzer FROM ragtune.collections ORDER BY name"
        rows = self._connections.run(lambda connection: connection.execute(sql).fetchall())
        return [_collection(row) for row in rows]

    def drop(self, name: str) -> bool:
        return self._connections.run(lambda connection: _drop(connection, name))

    def check(self) -> None:
        self._connections.run(lambda connection: connection.execute("SELECT 1"))

    def close(self) -> None:
        self._connections.close()
        if self._on_close is not None:
            self._on_close()


def _find(connection: Any, name: str) -> tuple[int, Collection] | None:
    sql = "SELECT collection_id, name, embed_model, embed_dims, analyzer FROM ragtune.collections WHERE name = %s"
    found = connection.execute(sql, (name,)).fetchone()
    return None if found is None else (int(found[0]), _collection(found[1:]))


def _collection(row: Sequence[Any]) -> Collection:
    return Collection(**dict(zip(Collection.model_fields, row, strict=True)))


def _create(connection: Any, wanted: Collection) -> tuple[int, Collection]:
    """Return the collection, created unless another process was faster."""
    sql = (
        "INSERT INTO ragtune.collections (name, embed_model, embed_dims, analyzer) VALUES (%s, %s, %s, %s) "
        "RETURNING collection_id"
    )
    with connection.transaction():
        _lock_schema(connection)
        if (found := _find(connection, wanted.name)) is not None:
            return found
        values = (wanted.name, wanted.embed_model, wanted.embed_dims, wanted.analyzer)
        (collection_id,) = connection.execute(sql, values).fetchone()
        connection.execute(Statements(collection_id, wanted.embed_dims)("create_tables"))
        current().commit()
    return int(collection_id), wanted


def _drop(connection: Any, name: str) -> bool:
    with connection.transaction():
        _lock_schema(connection)
        if (found := _find(connection, name)) is None:
            return False
        sql = Statements(found[0], found[1].embed_dims)
        connection.execute(sql("lock"))
        connection.execute(sql("drop_tables"))
        current().commit()
    return True


def _ensure_schema(connection: Any) -> None:
    """Create the schema if it is missing, and check that it is ours. Several processes may do so at once."""
    (encoding,) = connection.execute("SELECT current_setting('server_encoding')").fetchone()
    if encoding != "UTF8":
        raise StoreError(f"the database's encoding is {encoding}: allowed is UTF8")
    if not _has_schema(connection):  # looked at first, since a user of a schema needs no right to create one
        with connection.transaction():
            _lock_schema(connection)
            if not _has_schema(connection):
                connection.execute(read_sql("schema.sql", version=SCHEMA_VERSION))
    (version,) = connection.execute("SELECT version FROM ragtune.schema_version").fetchone()
    if version != SCHEMA_VERSION:
        raise StoreError(
            f"the database's schema ragtune has version {version}: allowed is {SCHEMA_VERSION}; use another database, "
            "or DROP SCHEMA ragtune CASCADE, and ingest again"
        )
    (extension,) = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
    if tuple(map(int, extension.split(".")[:2])) < _PGVECTOR_MIN:
        raise StoreError(f"pgvector has version {extension}: allowed is 0.8 or later")


def _lock_schema(connection: Any) -> None:
    """Keep other processes from creating or dropping tables until the transaction ends."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))


def _has_schema(connection: Any) -> bool:
    # Not to_regclass, which may return what it saw before the wait for the lock.
    sql = "SELECT count(*) FROM pg_catalog.pg_tables WHERE schemaname = 'ragtune' AND tablename = 'schema_version'"
    (found,) = connection.execute(sql).fetchone()
    return bool(found)
