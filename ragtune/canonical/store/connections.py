"""Connections to a PostgreSQL server: a pool, one retry, and errors that say what happened but no secret."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from ragtune.canonical.permit import current
from ragtune.core.arguments import check_count, check_number, check_positive
from ragtune.core.errors import ConfigError, MissingExtraError, StoreError, StoreTimeoutError

T = TypeVar("T")

_log = logging.getLogger(__name__)
_STARTING_UP = "57P03"
_UNDEFINED_TABLE = "42P01"
_QUERY_CANCELED = "57014"
_RECOVERY_S = 10.0
_CONNECT_S = 5
_STATEMENT_S = (0.001, (2**31 - 1) / 1000)  # whole milliseconds in an int4, of which 0 is no limit


class MissingTableError(StoreError):
    """The table of a collection that was dropped meanwhile."""


class Connections:
    """A pool of connections of one server; runs units of work on them.

    Work that loses its connection is done once more on a fresh one, which must therefore be harmless: reads are, and
    so is a write in one transaction that makes the same state when repeated. The second loss is an error. A server
    that restarts is waited for up to ten seconds; one that is not there is an error at once. Work that the server
    cancels is not done again.

    Args:
        dsn: connection string or URI; its password never appears in an error or a log.
        pool_size: the most connections, >= 1.
        timeout_s: seconds to wait for a free connection, > 0.
        settings: session settings of every connection, by name.
        statement_timeout_s: after which the server cancels a statement, 0.001 to 2147483.647; None leaves it to the
            server's own setting.
        revive: starts the server again if it was killed, called when it cannot be reached; None where that is not ours.

    Raises:
        MissingExtraError: without the extra ``postgres``.
        ConfigError: if the DSN cannot be read, or an argument is out of range.
        StoreError: if the server cannot be reached.
    """

    def __init__(
        self,
        dsn: str,
        pool_size: int,
        timeout_s: float,
        settings: dict[str, str],
        statement_timeout_s: float | None = None,
        revive: Callable[[], None] | None = None,
    ) -> None:
        check_count("postgres pool_size", pool_size, low=1)
        check_positive("postgres timeout_s", timeout_s)
        self._dsn = dsn
        self._statement_timeout_s = statement_timeout_s
        self._settings = settings | _limits(statement_timeout_s)
        self._owner = os.getpid()
        self._closing = threading.Lock()
        self._is_closed = False
        self._revive = revive
        self._is_down = False
        self._psycopg, self._secrets = _read_dsn(dsn)
        from psycopg_pool import ConnectionPool

        self._pool: Any = ConnectionPool(
            dsn,
            min_size=1,
            max_size=pool_size,
            timeout=timeout_s,
            kwargs={"autocommit": True, "connect_timeout": _CONNECT_S},
            configure=self._configure,
            name="ragtune",
            open=False,
        )
        self._probe()

    def start(self, prepare: Callable[[Any], None]) -> None:
        """``prepare(connection)``, which must see to it that the vector type is there, then open the pool.

        It runs without the settings, and so without their time limit.
        """
        try:
            with self._psycopg.connect(self._dsn, autocommit=True, connect_timeout=_CONNECT_S) as connection:
                prepare(connection)
        except self._psycopg.Error as error:
            raise self._explained(error) from None
        self._pool.open()
        atexit.register(self.close)

    def run(self, work: Callable[[Any], T]) -> T:
        """``work(connection)``, once more if the connection is lost; connections are in autocommit mode.

        Raises:
            StoreTimeoutError: if the server cancelled the work.
            StoreError: if the work fails; with the server's message.
        """
        if self._is_closed:
            raise StoreError("the database is closed")
        if self._is_down:
            # The pool would wait for the server; who asks is told at once.
            self._probe()
            self._is_down = False
        try:
            return self._attempt(work)
        except _Lost as lost:
            self._reconnect(lost)
        try:
            return self._attempt(work)
        except _Lost as lost:
            raise StoreError(f"the connection was lost twice: {self._clean(lost.reason)}") from None

    def close(self) -> None:
        """Close all connections; calling it again does nothing."""
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
                raise _Lost(error) from None
            raise self._explained(error) from None

    def _cancel(self, connection: Any) -> None:
        """Have the server cancel what the connection waits for."""
        try:
            connection.cancel_safe(timeout=_CONNECT_S)
        except self._psycopg.Error as error:
            _log.warning("a statement could not be cancelled: %s", self._clean(error))

    def _reconnect(self, lost: _Lost) -> None:
        try:
            self._probe()
        except StoreError as error:
            self._is_down = True
            raise StoreError(
                f"the connection was lost ({self._clean(lost.reason)}) and could not be made again: {error}"
            ) from None
        with suppress(self._psycopg.Error):
            self._pool.check()

    def _probe(self) -> None:
        """Connect once, waiting while the server starts up or recovers; one that is gone is revived once."""
        deadline = time.monotonic() + _RECOVERY_S
        revive = self._revive
        while True:
            try:
                self._psycopg.connect(self._dsn, connect_timeout=_CONNECT_S).close()
                return
            except self._psycopg.Error as error:
                if revive is not None and not _is_starting(error):
                    revive()
                    revive = None
                elif not _is_starting(error) or time.monotonic() > deadline:
                    raise self._explained(error) from None
            time.sleep(0.05)

    def _configure(self, connection: Any) -> None:
        from pgvector.psycopg import register_vector

        register_vector(connection)
        for name, value in self._settings.items():
            connection.execute("SELECT set_config(%s, %s, false)", (name, value))

    def _explained(self, error: Exception) -> StoreError:
        state = getattr(error, "sqlstate", None)
        message = f"PostgreSQL: {self._clean(error)}" + (f" (SQLSTATE {state})" if state else "")
        if state == _QUERY_CANCELED:
            return StoreTimeoutError(f"{message}; its transaction was undone. {self._advice()}")
        return MissingTableError(message) if state == _UNDEFINED_TABLE else StoreError(message)

    def _advice(self) -> str:
        if self._statement_timeout_s is None:
            return "The limit is the server's own: ask for less at once, or have its statement_timeout raised"
        return (
            f"A statement may take {self._statement_timeout_s:g} s: ask for less at once, try again when the database "
            "is less busy, or allow more time (--timeout of ragtune's commands, statement_timeout_s of the library)"
        )

    def _clean(self, error: Exception) -> str:
        message = " ".join(str(error).split())
        for secret in self._secrets:
            message = message.replace(secret, "***")
        return message


class _Lost(Exception):  # noqa: N818
    """The connection went away under the work."""

    def __init__(self, reason: Exception) -> None:
        super().__init__()
        self.reason = reason


def _limits(statement_timeout_s: float | None) -> dict[str, str]:
    """Session settings."""
    if statement_timeout_s is None:
        return {}
    seconds = check_number("postgres statement_timeout_s", statement_timeout_s, *_STATEMENT_S)
    return {"statement_timeout": str(round(seconds * 1000))}


def _is_starting(error: Exception) -> bool:
    # What the server says to somebody who connects comes from libpq as plain text, without an SQLSTATE.
    message = str(error)
    return getattr(error, "sqlstate", None) == _STARTING_UP or "starting up" in message or "recovery mode" in message


def require_psycopg() -> Any:
    """The package psycopg, once everything that a PostgreSQL store imports is known to be installed.

    Raises:
        MissingExtraError: without the extra ``postgres``.
    """
    try:
        import pgvector.psycopg  # noqa: F401
        import psycopg
        import psycopg_pool  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("a PostgreSQL store", "postgres") from error
    return psycopg


def _read_dsn(dsn: str) -> tuple[Any, list[str]]:
    """psycopg, and what in the DSN must not be told."""
    psycopg = require_psycopg()
    from psycopg.conninfo import conninfo_to_dict

    try:
        options = conninfo_to_dict(dsn)
    except psycopg.Error:
        # The parser's message quotes the string, password and all.
        raise ConfigError(
            "dsn: cannot be read, allowed is postgresql://user:password@host:port/database or key=value pairs"
        ) from None
    return psycopg, [str(value) for name, value in options.items() if "password" in name and value]
