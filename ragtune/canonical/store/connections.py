"""Connections to a PostgreSQL server: a pool, and errors that give the reason but no secret."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from ragtune.canonical.permit import current
from ragtune.core.arguments import check_count, check_number
from ragtune.core.errors import ConfigError, MissingExtraError, StoreError, StoreTimeoutError

T = TypeVar("T")

EF_SEARCH = 200
"""Candidates that an HNSW search keeps; more cost time and raise recall."""

MAX_SCAN_TUPLES = 100_000
"""Rows that a filtered HNSW search visits before it gives up."""

_UNDEFINED_TABLE = "42P01"
_QUERY_CANCELED = "57014"
_CONNECT_S = 5
_FREE_S = 10.0  # to wait for a free connection, or for a server that restarts
_STATEMENT_S = (0.001, (2**31 - 1) / 1000)  # whole milliseconds in an int4, where 0 is no limit
_log = logging.getLogger(__name__)


class MissingTableError(StoreError):
    """The table does not exist, since its collection was dropped."""


class Connections:
    """A pool of connections to one server, which runs units of work. The pool replaces lost connections.

    The arguments are those of :class:`ragtune.canonical.store.database.PostgresDatabase`.
    """

    def __init__(self, dsn: str, pool_size: int, statement_timeout_s: float | None = None) -> None:
        check_count("postgres pool_size", pool_size, low=1)
        if statement_timeout_s is not None:
            check_number("postgres statement_timeout_s", statement_timeout_s, *_STATEMENT_S)
        self._dsn = dsn
        self._statement_timeout_s = statement_timeout_s
        self._owner = os.getpid()
        self._closing = threading.Lock()
        self._is_closed = False
        self._psycopg, self._secrets = _read_dsn(dsn)
        from psycopg_pool import ConnectionPool

        self._pool: Any = ConnectionPool(
            dsn,
            min_size=1,
            max_size=pool_size,
            timeout=_FREE_S,
            kwargs={"autocommit": True, "connect_timeout": _CONNECT_S},
            configure=self._configure,
            check=ConnectionPool.check_connection,
            name="ragtune",
            open=False,
        )

    def start(self, prepare: Callable[[Any], None]) -> None:
        """Call ``prepare(connection)``, which creates the vector type, without a time limit, and open the pool."""
        self._reach_server(prepare)
        self._pool.open()
        atexit.register(self.close)

    def run(self, work: Callable[[Any], T]) -> T:
        """Return ``work(connection)``. Connections are in autocommit mode."""
        from psycopg_pool import PoolTimeout

        if self._is_closed:
            raise StoreError("the database is closed")
        try:
            with self._pool.connection() as connection, current().interruptible(partial(self._cancel, connection)):
                return work(connection)
        except PoolTimeout:
            self._reach_server(lambda connection: None)
            raise StoreError(f"no connection became free within {_FREE_S:g} s") from None
        except self._psycopg.Error as error:
            raise self._explained(error) from None

    def close(self) -> None:
        """Close all connections. It is safe to call again."""
        with self._closing:
            if self._is_closed or os.getpid() != self._owner:
                return
            self._is_closed = True
        self._pool.close()
        atexit.unregister(self.close)

    def _cancel(self, connection: Any) -> None:
        """Let the server cancel the statement that the connection waits for."""
        try:
            connection.cancel_safe(timeout=_CONNECT_S)
        except self._psycopg.Error as error:
            _log.warning("a statement could not be cancelled: %s", self._clean(error))

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
        message = f"PostgreSQL: {self._clean(error)}" + (f" (SQLSTATE {state})" if state else "")
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

    def _clean(self, error: Exception) -> str:
        message = " ".join(str(error).split())
        for secret in self._secrets:
            message = message.replace(secret, "***")
        return message


def require_psycopg() -> Any:
    """Return the package psycopg, after a check that all packages of a PostgreSQL store are installed."""
    try:
        import pgvector.psycopg  # noqa: F401
        import psycopg
        import psycopg_pool  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("a PostgreSQL store", "postgres") from error
    return psycopg


def _read_dsn(dsn: str) -> tuple[Any, list[str]]:
    """Return psycopg and the secrets of the DSN."""
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
