"""One real PostgreSQL server for all tests of a run, a database of its own for each that asks."""

import atexit
import itertools
import os
import shutil
import signal
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
from patience import wait_until
from psycopg import sql
from psycopg.conninfo import make_conninfo

from ragtune.canonical.store.embedded import EmbeddedServer, is_running

_numbers = itertools.count()


@cache
def shared_server() -> EmbeddedServer:
    """Started on first use, stopped and removed when the tests end."""
    # Not pytest's own folder: its path may be closed to the user that the server runs as where tests run as root.
    folder = Path(tempfile.mkdtemp(prefix="ragtune-tests-"))
    folder.chmod(0o711)
    server = EmbeddedServer(folder)
    with psycopg.connect(server.dsn, autocommit=True) as connection:  # nothing here outlives the tests
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("SELECT pg_reload_conf()")

    def remove() -> None:
        with suppress(ProcessLookupError):
            os.kill(server.pid, signal.SIGQUIT)  # at once, without a last checkpoint of some hundred databases
            wait_until(lambda: not is_running(folder / "pgdata"))
        server.close()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return server


def fresh_dsn() -> str:
    """Connection string of a new, empty database."""
    name = f"test_{next(_numbers)}"
    dsn = shared_server().dsn
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return make_conninfo(dsn, dbname=name)


def slow_down_writes(connection: Any) -> None:
    """Let the first collection's chunks take 100 s each to be written, after their documents have been."""
    connection.execute(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(100); RETURN NEW; END $$"
    )
    connection.execute("CREATE TRIGGER slow BEFORE INSERT ON ragtune.chunks_1 FOR EACH ROW EXECUTE FUNCTION slow()")


def await_idle(connection: Any) -> None:
    """Until no other connection of this database has a query or a transaction under way."""
    sql = (
        "SELECT state, query FROM pg_stat_activity WHERE backend_type = 'client backend' AND state <> 'idle' "
        "AND datname = current_database() AND pid <> pg_backend_pid()"
    )
    wait_until(lambda: not connection.execute(sql).fetchall())
