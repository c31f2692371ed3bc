"""The canonical collections of a PostgreSQL server, over a pool of connections."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from importlib.resources import files
from typing import Any, TypeVar

from ragtune.canonical.analyzers import check_same, describe, unknown
from ragtune.canonical.permit import current
from ragtune.canonical.store.base import BaseDatabase
from ragtune.canonical.store.postgres import PostgresStore
from ragtune.canonical.store.statements import EF_SEARCH, SCHEMA_VERSION, MissingTableError, Statements
from ragtune.canonical.types import Collection
from ragtune.core.arguments import check_count, check_number
from ragtune.core.errors import ConfigError, MissingExtraError, StoreError, StoreTimeoutError
from ragtune.core.interfaces import BaseEmbedder

T = TypeVar("T")

MAX_SCAN_TUPLES = 100_000
"""Rows that a filtered HNSW search visits before it gives up."""

_UPGRADE = """
ALTER TABLE ragtune.collections ADD COLUMN IF NOT EXISTS settings jsonb NOT NULL DEFAULT '{}';
UPDATE ragtune.schema_version SET version = 5
"""
_LOCK = 0x7261677475  # any number that all processes agree on
_PGVECTOR_MIN = (0, 8)  # has iterative index scans
_UNDEFINED_TABLE = "42P01"
_QUERY_CANCELED = "57014"
_CONNECT_S = 5
_QUICK_S = 0.5  # to wait for a free connection before it is asked whether the server is there
_FREE_S = 10.0  # to wait for a free connection of a server that is there
_STATEMENT_S = (0.001, (2**31 - 1) / 1000)  # whole milliseconds in an int4, where 0 is no limit
_log = logging.getLogger(__name__)


class PostgresDatabase(BaseDatabase):
    """Collections in the schema ``ragtune`` of a PostgreSQL database with pgvector 0.8 or later.

    The schema is created if it is missing. Search settings belong to the session, so a pooler in between must pool by
    session, not by transaction. Safe to use from several threads. No error or log has the DSN's password.

    A collection of more than ``exact_below`` chunks gets indexes. The server cancels a statement after
    ``statement_timeout_s`` (0.001 to 2147483.647) and undoes its transaction; None keeps the server's own setting.
    ``revive`` starts a server again that was killed; it is called before each use.
    """

    def __init__(
        self,
        dsn: str,
        pool_size: int = 8,
        exact_below: int = 2000,
        on_close: Callable[[], None] | None = None,
        statement_timeout_s: float | None = None,
        revive: Callable[[], None] | None = None,
    ) -> None:
        self._exact_below = check_count("postgres exact_below", exact_below)
        check_count("postgres pool_size", pool_size, low=1)
        if statement_timeout_s is not None:
            check_number("postgres statement_timeout_s", statement_timeout_s, *_STATEMENT_S)
        self._on_close = on_close
        self._revive = revive
        self._dsn = dsn
        self._statement_timeout_s = statement_timeout_s
        self._owner = os.getpid()
        self._closing = threading.Lock()
        self._is_closed = False
        self._psycopg, self._secrets = read_dsn(dsn)
        from psycopg_pool import ConnectionPool

        self._pool: Any = ConnectionPool(
            dsn,
            min_size=1,
            max_size=pool_size,
            timeout=_FREE_S,
            kwargs={"autocommit": True, "connect_timeout": _CONNECT_S},
            configure=self._configure,
            check=ConnectionPool.check_connection,
            reconnect_timeout=1.0,  # else the pause between two attempts grows with the time that the server is away
            name="ragtune",
            open=False,
        )
        self._reach_server(_ensure_schema)  # without a time limit; it creates the vector type
        self._pool.open()
        atexit.register(self.close)

    def open(
        self, name: str, embedder: BaseEmbedder, *, create: bool = False, analyzer: str | None = None
    ) -> PostgresStore:
        wanted = describe(name, embedder, analyzer)
        found = self.run(lambda connection: _find(connection, name))
        if found is None and create:
            found = self.run(lambda connection: _create(connection, wanted))
        if found is None:
            raise unknown(name, [collection.name for collection in self.collections()])
        collection_id, kept, settings = found
        sql = Statements(collection_id, kept.embed_dims)
        used = check_same(kept, wanted, analyzer)
        return PostgresStore(self.run, sql, kept, embedder, used, self._exact_below, settings)

    def collections(self) -> list[Collection]:
        sql = "SELECT name, embed_model, embed_dims, analyzer FROM ragtune.collections ORDER BY name"
        rows = self.run(lambda connection: connection.execute(sql).fetchall())
        return [_collection(row) for row in rows]

    def settings(self, name: str) -> dict[str, Any]:
        found = self.run(lambda connection: _find(connection, name))
        return {} if found is None else found[2]

    def drop(self, name: str) -> bool:
        return self.run(lambda connection: _drop(connection, name))

    def check(self) -> None:
        self.run(lambda connection: connection.execute("SELECT 1"))

    def close(self) -> None:
        with self._closing:
            if self._is_closed or os.getpid() != self._owner:
                return
            self._is_closed = True
        self._pool.close()
        atexit.unregister(self.close)
        if self._on_close is not None:
            self._on_close()

    def run(self, work: Callable[[Any], T]) -> T:
        """Return ``work(connection)``. Connections are in autocommit mode."""
        from psycopg_pool import PoolTimeout

        if self._is_closed:
            raise StoreError("the database is closed")
        for wait_s in (_QUICK_S, _FREE_S):
            if self._revive is not None:  # a session notices late that its server is gone
                self._revive()
            try:
                with (
                    self._pool.connection(wait_s) as connection,
                    current().interruptible(partial(self._cancel, connection)),
                ):
                    return work(connection)
            except PoolTimeout:  # all are in use, or the server is gone
                self._reach_server(lambda connection: None)
            except self._psycopg.Error as error:
                raise self._explained(error) from None
        raise StoreError(f"no connection became free within {_FREE_S:g} s")

    def _cancel(self, connection: Any) -> None:
        """Let the server cancel the statement that the connection waits for."""
        try:
            connection.cancel_safe(timeout=_CONNECT_S)
        except self._psycopg.Error as error:
            _log.warning("a statement could not be cancelled: %s", clean(error, self._secrets))

    def _reach_server(self, work: Callable[[Any], None]) -> None:
        try:
            with self._psycopg.connect(self._dsn, autocommit=True, connect_timeout=_CONNECT_S) as connection:
                work(connection)
        except self._psycopg.Error as error:
            raise self._explained(error) from None

    def _configure(self, connection: Any) -> None:
        from pgvector.psycopg import register_vector

        register_vector(connection)
        settings = {
            "hnsw.ef_search": str(EF_SEARCH),
            "hnsw.iterative_scan": "strict_order",
            "hnsw.max_scan_tuples": str(MAX_SCAN_TUPLES),
            "jit": "off",  # compiling takes longer than any query here
        }
        if self._statement_timeout_s is not None:
            settings["statement_timeout"] = str(round(self._statement_timeout_s * 1000))
        for name, value in settings.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))

    def _explained(self, error: Exception) -> StoreError:
        state = getattr(error, "sqlstate", None)
        message = f"PostgreSQL: {clean(error, self._secrets)}" + (f" (SQLSTATE {state})" if state else "")
        if state == _UNDEFINED_TABLE:
            return MissingTableError(message)
        if state != _QUERY_CANCELED:
            return StoreError(message)
        limit = "the server's statement_timeout"
        if self._statement_timeout_s is not None:
            limit = (
                f"{self._statement_timeout_s:g} s (--timeout of ragtune's commands, statement_timeout_s of the library)"
            )
        return StoreTimeoutError(
            f"{message}; its transaction was undone. The limit of a statement is {limit}: ask for less at once, retry "
            "when the database is less busy, or raise the limit"
        )


def _find(connection: Any, name: str) -> tuple[int, Collection, dict[str, Any]] | None:
    sql = (
        "SELECT name, embed_model, embed_dims, analyzer, collection_id, settings FROM ragtune.collections "
        "WHERE name = %s"
    )
    found = connection.execute(sql, (name,)).fetchone()
    return None if found is None else (int(found[4]), _collection(found[:4]), found[5])


def _collection(row: Sequence[Any]) -> Collection:
    return Collection(**dict(zip(Collection.model_fields, row, strict=True)))


def _create(connection: Any, wanted: Collection) -> tuple[int, Collection, dict[str, Any]]:
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
    return int(collection_id), wanted, {}


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
                sql = (files("ragtune.canonical.store") / "schema.sql").read_text(encoding="utf-8")
                connection.execute(sql.format(version=SCHEMA_VERSION))
    (version,) = connection.execute("SELECT version FROM ragtune.schema_version").fetchone()
    if version == SCHEMA_VERSION - 1:
        with connection.transaction():
            _lock_schema(connection)
            connection.execute(_UPGRADE)
        version = SCHEMA_VERSION
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


def require_psycopg() -> Any:
    """Return the package psycopg, after a check that all packages of a PostgreSQL store are installed."""
    try:
        import pgvector.psycopg  # noqa: F401
        import psycopg
        import psycopg_pool  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("a PostgreSQL store", "postgres") from error
    return psycopg


def clean(error: Exception, secrets: Sequence[str]) -> str:
    """The error's message in one line without passwords."""
    message = " ".join(str(error).split())
    for secret in secrets:
        message = message.replace(secret, "***")
    return message


def read_dsn(dsn: str) -> tuple[Any, list[str]]:
    """The package psycopg, and the secrets of a connection string, which is checked."""
    psycopg = require_psycopg()
    from psycopg.conninfo import conninfo_to_dict

    try:
        options = conninfo_to_dict(dsn)
    except psycopg.Error:
        # The parser's message quotes the string with its password.
        raise ConfigError(
            "dsn: cannot be read, allowed is postgresql://user:password@host:port/database or key=value pairs"
        ) from None
    return psycopg, [str(value) for name, value in options.items() if "password" in name and value]
