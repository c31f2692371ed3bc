"""Connections to a PostgreSQL server: a pool, one retry, and errors that give the reason but no secret."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
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
_FREE_S = 30.0  # to wait for a free connection
_STATEMENT_S = (0.001, (2**31 - 1) / 1000)  # whole milliseconds in an int4, where 0 is no limit
_log = logging.getLogger(__name__)


class MissingTableError(StoreError):
    """The table does not exist, since its collection was dropped."""


class Connections:
    """A pool of connections to one server, which runs units of work.

    Work that loses its connection is repeated once on a new one, so it must be safe to repeat. Reads are, and so is a
    write in one transaction that leads to the same state. A second loss is an error, and so is a server that cannot
    be reached. Work that the server cancels is not repeated.

    Args:
        dsn: connection string or URI. Its password never appears in an error or a log.
        pool_size: the most connections, >= 1.
        statement_timeout_s: the server cancels a statement after this time, 0.001 to 2147483.647. None keeps the
            server's own setting.
        revive: starts the server again if it was killed. It is called before a lost connection is replaced.

    Raises:
        MissingExtraError: without the extra ``postgres``.
        ConfigError: if the DSN cannot be parsed, or an argument is out of range.
    """

    def __init__(
        self,
        dsn: str,
        pool_size: int,
        statement_timeout_s: float | None = None,
        revive: Callable[[], None] | None = None,
    ) -> None:
        check_count("postgres pool_size", pool_size, low=1)
        if statement_timeout_s is not None:
            check_number("postgres statement_timeout_s", statement_timeout_s, *_STATEMENT_S)
        self._dsn = dsn
        self._statement_timeout_s = statement_timeout_s
        self._owner = os.getpid()
        self._closing = threading.Lock()
        self._is_closed = False
        self._is_down = False
        self._revive = revive
        self._psycopg, self._secrets = _read_dsn(dsn)
        from psycopg_pool import ConnectionPool

        self._pool: Any = ConnectionPool(
            dsn,
            min_size=1,
            max_size=pool_size,
            timeout=_FREE_S,
            kwargs={"autocommit": True, "connect_timeout": _CONNECT_S},
            configure=self._configure,
            name="ragtune",
            open=False,
        )

    def start(self, prepare: Callable[[Any], None]) -> None:
        """Call ``prepare(connection)``, which creates the vector type, and open the pool.

        The call has no time limit.
        """
        try:
            with self._psycopg.connect(self._dsn, autocommit=True, connect_timeout=_CONNECT_S) as connection:
                prepare(connection)
        except self._psycopg.Error as error:
            raise self._explained(error) from None
        self._pool.open()
        atexit.register(self.close)

    def run(self, work: Callable[[Any], T]) -> T:
        """Return ``work(connection)``, repeated once if the connection is lost. Connections are in autocommit mode."""
        if self._is_closed:
            raise StoreError("the database is closed")
        if self._is_down:  # the pool would wait for the server
            self._reach_server()
        for _ in range(2):
            try:
                return self._attempt(work)
            except _LostError as lost:
                reason = str(lost)
                self._reach_server()
        raise StoreError(f"the connection was lost twice: {reason}")

    def close(self) -> None:
        """Close all connections. It is safe to call again."""
        with self._closing:
            if self._is_closed or os.getpid() != self._owner:
                return
            self._is_closed = True
        self._pool.close()
        atexit.unregister(self.close)

    def _attempt(self, work: Callable[[Any], T]) -> T:
        from psycopg_pool import PoolTimeout

        connection = None
        try:
            with self._pool.connection() as connection, current().interruptible(partial(self._cancel, connection)):
                return work(connection)
        except PoolTimeout as error:
            raise StoreError(f"no connection became free: {self._clean(error)}") from None
        except self._psycopg.Error as error:
            if connection is not None and connection.closed:
                raise _LostError(self._clean(error)) from None
            raise self._explained(error) from None

    def _cancel(self, connection: Any) -> None:
        """Let the server cancel the statement that the connection waits for."""
        try:
            connection.cancel_safe(timeout=_CONNECT_S)
        except self._psycopg.Error as error:
            _log.warning("a statement could not be cancelled: %s", self._clean(error))

    def _reach_server(self) -> None:
        """Replace lost connections, or raise at once if the server is down."""
        self._is_down = True
        if self._revive is not None:
            self._revive()
        try:
            self._psycopg.connect(self._dsn, connect_timeout=_CONNECT_S).close()
        except self._psycopg.Error as error:
            raise self._explained(error, "the connection was lost and could not be made again: ") from None
        self._is_down = False
        with suppress(self._psycopg.Error):
            self._pool.check()

    def _configure(self, connection: Any) -> None:
        from pgvector.psycopg import register_vector

        register_vector(connection)
        for name, value in self.session_settings.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))

    @property
    def session_settings(self) -> dict[str, str]:
        """Settings of every connection, by name."""
        settings = {
            "hnsw.ef_search": str(EF_SEARCH),
            "hnsw.iterative_scan": "strict_order",
            "hnsw.max_scan_tuples": str(MAX_SCAN_TUPLES),
            "jit": "off",  # compiling takes longer than any query here
        }
        if self._statement_timeout_s is not None:
            settings["statement_timeout"] = str(round(self._statement_timeout_s * 1000))
        return settings

    def _explained(self, error: Exception, prefix: str = "") -> StoreError:
        state = getattr(error, "sqlstate", None)
        message = f"{prefix}PostgreSQL: {self._clean(error)}" + (f" (SQLSTATE {state})" if state else "")
        if state == _QUERY_CANCELED:
            return StoreTimeoutError(f"{message}; its transaction was undone. {self._advice()}")
        return MissingTableError(message) if state == _UNDEFINED_TABLE else StoreError(message)

    def _advice(self) -> str:
        if self._statement_timeout_s is None:
            return "The limit is the server's statement_timeout: raise it, or ask for less at once"
        return (
            f"A statement may take {self._statement_timeout_s:g} s: ask for less at once, retry when the database is "
            "less busy, or allow more time (--timeout of ragtune's commands, statement_timeout_s of the library)"
        )

    def _clean(self, error: Exception) -> str:
        message = " ".join(str(error).split())
        for secret in self._secrets:
            message = message.replace(secret, "***")
        return message


class _LostError(Exception):
    """The connection was lost during the work."""


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
