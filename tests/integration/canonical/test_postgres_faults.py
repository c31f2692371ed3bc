"""What happens to a PostgreSQL store when something breaks: nothing half-written, nothing lost, errors that say why."""

import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from patience import HANG_S, wait_until
from postgres_server import fresh_dsn, slow_down_writes

from ragtune.canonical.store.database import PostgresDatabase
from ragtune.canonical.store.embedded import EmbeddedServer
from ragtune.canonical.store.memory import MemoryDatabase
from ragtune.canonical.store.postgres import PostgresStore
from ragtune.canonical.store.statements import SCHEMA_VERSION
from ragtune.canonical.types import Chunk, Embedding, Filters, StoreCounts
from ragtune.core.errors import ConfigError, StoreError, StoreTimeoutError
from ragtune.embedders.hashing import HashingEmbedder

EMBEDDER = HashingEmbedder(dims=32)


@pytest.fixture
def dsn() -> str:
    return fresh_dsn()


@pytest.fixture
def store(dsn: str) -> Iterator[PostgresStore]:
    with PostgresDatabase(dsn) as database:
        yield database.open("tea", EMBEDDER, create=True)


def document(doc_id: str, chunks: int = 5) -> list[Chunk]:
    return [Chunk(doc_id=doc_id, chunk_index=place, content=f"tea {doc_id} {place}") for place in range(chunks)]


def batch(*doc_ids: str) -> tuple[list[Chunk], Embedding]:
    chunks = [chunk for doc_id in doc_ids for chunk in document(doc_id)]
    return chunks, EMBEDDER.embed([chunk.content for chunk in chunks])


def search(store: PostgresStore) -> list[str]:
    return [found.doc_id for found in store.lexical_candidates("tea", 3, Filters())]


def admin(dsn: str) -> Any:
    return closing(psycopg.connect(dsn, autocommit=True))


def waiting(connection: Any) -> list[int]:
    """Server processes of this database that wait for a lock."""
    rows = connection.execute(
        "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    ).fetchall()
    return [pid for (pid,) in rows]


def in_thread(call: Callable[[], Any]) -> Future[Any]:
    return ThreadPoolExecutor(1).submit(call)


def test_deleting_waits_for_no_other_collection(dsn: str) -> None:
    # The server checks references to documents by statements of its own, whose general plan is for all collections.
    with PostgresDatabase(dsn, pool_size=1, statement_timeout_s=5) as database, admin(dsn) as outsider:
        store, _ = (database.open(name, EMBEDDER, create=True) for name in ("tea", "other"))
        ids = [f"d{place}" for place in range(12)]
        store.upsert(*batch(*ids))
        outsider.execute("BEGIN; LOCK TABLE ragtune.chunks_2")
        assert [store.delete([doc_id]) for doc_id in ids] == [1] * 12


def test_a_server_killed_in_the_middle_of_a_batch_leaves_no_half_document_and_resumes(folder: Path) -> None:
    batches = [batch(f"a{i}", f"b{i}", f"c{i}") for i in range(4)]
    server = EmbeddedServer(folder)
    with PostgresDatabase(server.dsn) as database, admin(server.dsn) as outsider:
        store = database.open("tea", EMBEDDER, create=True)
        store.load(batches[:2])
        # Keeps the ingest waiting after it has written documents and before it has written their chunks.
        outsider.execute("BEGIN; LOCK TABLE ragtune.chunks_1 IN SHARE MODE")
        ingest = in_thread(lambda: store.load(batches[2:]))
        with admin(server.dsn) as watcher:
            wait_until(lambda: waiting(watcher))
        os.kill(server.pid, signal.SIGKILL)
        assert isinstance(ingest.exception(HANG_S), StoreError)
    with EmbeddedServer(folder) as restarted, PostgresDatabase(restarted.dsn) as database:
        store = database.open("tea", EMBEDDER)
        assert store.counts() == StoreCounts(documents=6, chunks=30)
        assert all(len(store.chunks(doc_id)) == 5 for doc_id in store.doc_ids())
        resumed = store.load(batches)
        assert (resumed.unchanged, resumed.inserted) == (30, 30)
        reference = MemoryDatabase().open("tea", EMBEDDER, create=True)
        reference.load(batches)
        assert store.digests(store.doc_ids()) == reference.digests(reference.doc_ids())
        found = [one.lexical_candidates("tea b2 3", 60, Filters()) for one in (store, reference)]
        assert found[0] == found[1]
    server.close()


def test_two_processes_may_make_schema_and_collection_at_once(dsn: str) -> None:
    code = (
        "import sys\nfrom ragtune.canonical.store.database import PostgresDatabase\n"
        "from ragtune.embedders.hashing import HashingEmbedder\n"
        "PostgresDatabase(sys.argv[1]).open('tea', HashingEmbedder(dims=32), create=True)"
    )
    processes = [subprocess.Popen([sys.executable, "-c", code, dsn]) for _ in range(2)]
    assert [process.wait(HANG_S) for process in processes] == [0, 0]


def test_a_connection_that_broke_between_queries_is_not_noticed(dsn: str, store: PostgresStore) -> None:
    store.upsert(*batch("x"))
    with admin(dsn) as outsider:
        assert end_others(outsider) >= 1
    assert search(store) == ["x"] * 3


def end_others(connection: Any) -> int:
    rows = connection.execute(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    ).fetchall()
    return len(rows)


def test_a_write_whose_connection_is_lost_is_an_error_that_leaves_nothing(dsn: str, store: PostgresStore) -> None:
    with admin(dsn) as outsider:
        with outsider.transaction():
            outsider.execute("LOCK TABLE ragtune.chunks_1 IN ACCESS EXCLUSIVE MODE")
            write = in_thread(lambda: store.upsert(*batch("x")))
            wait_until(lambda: waiting(outsider))
            end_others(outsider)
        assert isinstance(write.exception(HANG_S), StoreError)
    assert store.counts() == StoreCounts(documents=0, chunks=0)
    assert store.upsert(*batch("x")).inserted == 5


def test_a_server_that_is_gone_is_an_error_with_the_reason(folder: Path) -> None:
    server = EmbeddedServer(folder)
    with PostgresDatabase(server.dsn) as database:
        server.close()
        with pytest.raises(StoreError, match=r"PostgreSQL: .*No such file"):
            database.check()


def test_a_closed_database_says_so(dsn: str) -> None:
    database = PostgresDatabase(dsn)
    database.close()
    database.close()
    with pytest.raises(StoreError, match="closed"):
        database.check()


def test_a_full_disk_is_an_error_with_the_servers_words_and_nothing_of_the_call_stays(
    dsn: str, store: PostgresStore
) -> None:
    """Simulated: a trigger raises the server's own SQLSTATE for it, as no small disk can be made without root."""
    store.upsert(*batch("before"))
    with admin(dsn) as outsider:
        outsider.execute(
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.doc_id = 'c' THEN "
            "RAISE 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END IF; "
            "RETURN NEW; END $$"
        )
        outsider.execute(
            "CREATE TRIGGER full_disk BEFORE INSERT ON ragtune.chunks_1 FOR EACH ROW EXECUTE FUNCTION full_disk()"
        )
        with pytest.raises(StoreError, match=r"No space left on device.*53100"):
            store.upsert(*batch("a", "b", "c"))
        assert store.counts() == StoreCounts(documents=1, chunks=5)


def test_an_index_build_without_shared_memory_for_its_workers_is_done_by_one(dsn: str) -> None:
    """Simulated by an event trigger: PostgreSQL reports a full /dev/shm as a full disk."""
    with PostgresDatabase(dsn, exact_below=0) as database, admin(dsn) as outsider:
        store = database.open("tea", EMBEDDER, create=True)
        outsider.execute(
            "CREATE FUNCTION no_workers() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN "
            "IF current_setting('max_parallel_maintenance_workers') <> '0' THEN "
            "RAISE 'could not resize shared memory segment' USING ERRCODE = 'disk_full'; END IF; END $$"
        )
        outsider.execute(
            "CREATE EVENT TRIGGER no_workers ON ddl_command_end WHEN TAG IN ('CREATE INDEX') "
            "EXECUTE FUNCTION no_workers()"
        )
        store.upsert(*batch("x"))
        found = outsider.execute("SELECT count(*) FROM pg_indexes WHERE tablename = 'chunks_1'").fetchone()
    assert found == (6,)


def test_a_schema_of_another_version_is_refused_naming_both(dsn: str, store: PostgresStore) -> None:
    with admin(dsn) as outsider:
        outsider.execute("UPDATE ragtune.schema_version SET version = 99")
    with pytest.raises(StoreError, match=f"version 99: allowed is {SCHEMA_VERSION}"):
        PostgresDatabase(dsn)


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://somebody:hunter2@127.0.0.1:1/nowhere",
        "host=/nowhere sslpassword=hunter2 dbname=hunter2",
    ],
)
def test_a_password_is_not_told_when_the_server_cannot_be_reached(dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(StoreError) as caught:
        PostgresDatabase(dsn)
    assert "hunter2" not in str(caught.value) + repr(caught.value) + caplog.text
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("dsn", ["password=hunter2 nonsense", "postgresql://u:hunter2@host:port:x/%zz", "hunter2"])
def test_a_dsn_that_cannot_be_read_is_not_quoted(dsn: str) -> None:
    with pytest.raises(ConfigError) as caught:
        PostgresDatabase(dsn)
    assert "hunter2" not in str(caught.value)
    assert caught.value.__suppress_context__


def test_without_a_limit_the_servers_own_holds(dsn: str) -> None:
    with admin(dsn) as outsider:
        outsider.execute(f"ALTER DATABASE {outsider.info.dbname} SET statement_timeout = '2.5s'")
    with PostgresDatabase(dsn) as database, admin(dsn) as outsider:
        store = database.open("tea", EMBEDDER, create=True)
        slow_down_writes(outsider)
        with pytest.raises(StoreTimeoutError, match="57014") as caught:
            store.upsert(*batch("after"))
        assert "2.5 s" not in str(caught.value)


@pytest.mark.parametrize("limit", [0, 1e7, math.nan, True, "1s"])
def test_a_limit_that_the_server_cannot_keep_is_refused(dsn: str, limit: Any) -> None:
    with pytest.raises(ConfigError, match="statement_timeout_s"):
        PostgresDatabase(dsn, statement_timeout_s=limit)
