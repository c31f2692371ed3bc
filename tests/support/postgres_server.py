"""One real PostgreSQL server for all tests of a run, a database of its own for each that asks."""

from __future__ import annotations

import atexit
import itertools
import shutil
import tempfile
from functools import cache

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from ragtune.canonical.store.embedded import EmbeddedServer

_numbers = itertools.count()


@cache
def shared_server() -> EmbeddedServer:
    """Started on first use, stopped and removed when the tests end."""
    # Not pytest's own folder: its path may be closed to the user that the server runs as where tests run as root.
    folder = tempfile.mkdtemp(prefix="ragtune-tests-")
    server = EmbeddedServer(folder)

    def remove() -> None:
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
