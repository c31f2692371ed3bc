"""A PostgreSQL server's canonical collections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ragtune.canonical.permit import current
from ragtune.canonical.store.base import BaseDatabase
from ragtune.canonical.store.connections import Connections
from ragtune.canonical.store.identity import check_same, describe, unknown
from ragtune.canonical.store.postgres import PostgresStore, SearchSettings
from ragtune.canonical.store.schema import ensure_schema, lock_schema
from ragtune.canonical.store.statements import Statements
from ragtune.canonical.store.writing import touch_one_collection
from ragtune.canonical.types import Collection
from ragtune.core.interfaces import BaseEmbedder


class PostgresDatabase(BaseDatabase):
    """Collections in the schema ``ragtune`` of a PostgreSQL database with pgvector 0.8 or later.

    The schema is made if it is missing. Search settings belong to the session, so a pooler between this and the server
    must pool by session, not by transaction. Safe to use from several threads.

    Args:
        dsn: connection string or URI; its password never appears in an error or a log.
        pool_size: the most connections, >= 1.
        timeout_s: seconds to wait for a free connection, > 0.
        search: how collections are searched; None takes the defaults.
        on_close: function that is called after the connections are closed.
        statement_timeout_s: after which the server cancels a statement and undoes its transaction, 0.001 to
            2147483.647: a request's time limit, where requests are served; None leaves it to the server's own setting.
            Making the schema is not limited.
        revive: called when the server cannot be reached, to start it again; None where that is not ours to do.

    Raises:
        MissingExtraError: without the extra ``postgres``.
        ConfigError: on an argument out of range, or a DSN that cannot be read.
        StoreError: if the server cannot be reached, or its schema is of another version.
    """

    def __init__(
        self,
        dsn: str,
        pool_size: int = 8,
        timeout_s: float = 30.0,
        search: SearchSettings | None = None,
        on_close: Callable[[], None] | None = None,
        statement_timeout_s: float | None = None,
        revive: Callable[[], None] | None = None,
    ) -> None:
        self.search = search or SearchSettings()
        self._on_close = on_close
        self._connections = Connections(dsn, pool_size, timeout_s, self.search.session, statement_timeout_s, revive)
        self._connections.start(lambda connection: ensure_schema(connection, self.search.policy))

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
        return PostgresStore(self._connections, sql, kept, embedder, check_same(kept, wanted, analyzer), self.search)

    def collections(self) -> list[Collection]:
        sql = "SELECT name, embed_model, embed_dims, analyzer FROM ragtune.collections ORDER BY name"
        rows = self._connections.run(lambda connection: connection.execute(sql).fetchall())
        return [_collection(*row) for row in rows]

    def drop(self, name: str) -> bool:
        return self._connections.run(lambda connection: _drop(connection, name))

    def check(self) -> None:
        self._connections.run(lambda connection: connection.execute("SELECT 1"))

    def close(self) -> None:
        self._connections.close()
        if self._on_close is not None:
            self._on_close()


def _collection(name: str, model: str, dims: int, analyzer: str) -> Collection:
    return Collection(name=name, embed_model=model, embed_dims=dims, analyzer=analyzer)


def _find(connection: Any, name: str) -> tuple[int, Collection] | None:
    sql = "SELECT collection_id, name, embed_model, embed_dims, analyzer FROM ragtune.collections WHERE name = %s"
    found = connection.execute(sql, (name,)).fetchone()
    return None if found is None else (int(found[0]), _collection(*found[1:]))


def _create(connection: Any, wanted: Collection) -> tuple[int, Collection]:
    """The collection, made unless somebody else was faster."""
    sql = (
        "INSERT INTO ragtune.collections (name, embed_model, embed_dims, analyzer) VALUES (%s, %s, %s, %s) "
        "RETURNING collection_id"
    )
    with connection.transaction():
        lock_schema(connection)
        if (found := _find(connection, wanted.name)) is not None:
            return found
        values = (wanted.name, wanted.embed_model, wanted.embed_dims, wanted.analyzer)
        (collection_id,) = connection.execute(sql, values).fetchone()
        connection.execute(Statements(collection_id, wanted.embed_dims).create_partition())
        current().commit()
    return int(collection_id), wanted


def _drop(connection: Any, name: str) -> bool:
    with connection.transaction():
        lock_schema(connection)
        if (found := _find(connection, name)) is None:
            return False
        collection_id, collection = found
        sql = Statements(collection_id, collection.embed_dims)
        touch_one_collection(connection)
        connection.execute(sql.lock())
        for statement in sql.drop_tables():
            connection.execute(statement)
        connection.execute(sql.drop_documents())
        connection.execute(sql.drop_collection())
        current().commit()
    return True
