"""A PostgreSQL store with a time limit lets the server cancel what takes longer, and nothing half-written stays."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from postgres_server import await_idle, fresh_dsn, slow_down_writes

from ragtune.canonical.store.database import PostgresDatabase
from ragtune.canonical.store.embedded import connect
from ragtune.canonical.store.postgres import PostgresStore
from ragtune.canonical.types import Chunk, Filters, StoreCounts
from ragtune.core.errors import ConfigError, StoreTimeoutError
from ragtune.embedders.hashing import HashingEmbedder

EMBEDDER = HashingEmbedder(dims=32)
LIMIT_S = 2.5
ALL = Filters()


@pytest.fixture
def dsn() -> str:
    """Of a database whose collection ``tea`` holds the document ``before``."""
    made = fresh_dsn()
    with PostgresDatabase(made) as database:
        put(database.open("tea", EMBEDDER, create=True), "before")
    return made


@pytest.fixture
def store(dsn: str) -> Iterator[PostgresStore]:
    with PostgresDatabase(dsn, statement_timeout_s=LIMIT_S) as database:
        yield database.open("tea", EMBEDDER)


@pytest.fixture
def outsider(dsn: str) -> Iterator[Any]:
    with closing(psycopg.connect(dsn, autocommit=True)) as connection:
        yield connection


def put(store: PostgresStore, *doc_ids: str) -> None:
    chunks = [Chunk(doc_id=doc_id, chunk_index=0, content=f"tea {doc_id}") for doc_id in doc_ids]
    store.upsert(chunks, EMBEDDER.embed([chunk.content for chunk in chunks]))


def assert_as_before(store: PostgresStore) -> None:
    assert store.counts() == StoreCounts(documents=1, chunks=1)
    assert store.doc_ids() == ["before"]
    assert [chunk.content for chunk in store.chunks("before")] == ["tea before"]
    assert [found.key for found in store.lexical_candidates("tea", 9, ALL)] == [("before", 0)]


def test_a_write_that_takes_too_long_is_cancelled_and_undone(store: PostgresStore, outsider: Any) -> None:
    slow_down_writes(outsider)
    with pytest.raises(StoreTimeoutError, match=r"57014.*2\.5 s.*statement_timeout_s"):
        put(store, "after")
    await_idle(outsider)
    assert_as_before(store)
    outsider.execute("DROP TRIGGER slow ON ragtune.chunks_1")
    put(store, "after")
    assert store.doc_ids() == ["after", "before"]


def test_a_read_that_waits_too_long_for_a_lock_is_cancelled(store: PostgresStore, outsider: Any) -> None:
    with outsider.transaction():
        outsider.execute("LOCK TABLE ragtune.chunks_1 IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(StoreTimeoutError):
            store.lexical_candidates("tea", 9, ALL)
        await_idle(outsider)
    assert_as_before(store)


def test_without_a_limit_the_servers_own_holds(dsn: str, outsider: Any) -> None:
    outsider.execute(f"ALTER DATABASE {outsider.info.dbname} SET statement_timeout = '{LIMIT_S}s'")
    slow_down_writes(outsider)
    with connect(dsn) as database:
        store = database.open("tea", EMBEDDER)
        with pytest.raises(StoreTimeoutError, match="57014") as caught:
            put(store, "after")
        assert "2.5 s" not in str(caught.value)
        assert_as_before(store)


@pytest.mark.parametrize("limit", [0, -1, 0.0001, 1e7, math.nan, math.inf, True, "1s"])
def test_a_limit_that_the_server_cannot_keep_is_refused(dsn: str, limit: Any) -> None:
    with pytest.raises(ConfigError, match="statement_timeout_s"):
        PostgresDatabase(dsn, statement_timeout_s=limit)
