"""A request that took too long writes nothing and holds no thread; writes of a document keep their order."""

import argparse
import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest
from patience import HANG_S, wait_until
from postgres_server import await_idle, fresh_dsn, slow_down_writes
from starlette.testclient import TestClient

from ragtune.canonical.service import RagService
from ragtune.canonical.store.base import BaseDatabase
from ragtune.canonical.store.database import PostgresDatabase
from ragtune.canonical.store.memory import MemoryDatabase
from ragtune.canonical.types import Embedding
from ragtune.cli.commands.options import add_service_options, make_limits, make_service
from ragtune.cli.commands.ranker import add_rerank_options
from ragtune.embedders.hashing import HashingEmbedder
from ragtune.services.application import create_application
from ragtune.services.limits import Runner, ServerLimits
from ragtune.services.mcp import create_server

SHORT = ServerLimits(timeout_s=0.5, threads=2)
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
INGEST = {"collection": "tea", "documents": [{"doc_id": "after", "content": "Tea."}]}
HUGE = "slow " * 2000  # more than a small request has


class HeldEmbedder(HashingEmbedder):
    """Holds batches with the word ``slow`` until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()
        self.lock = threading.Lock()
        self.begun = 0
        self.ended = 0

    def embed(self, texts: Sequence[str]) -> Embedding:
        if any("slow" in text for text in texts):
            with self.lock:
                self.begun += 1
            self.go_on.wait(HANG_S)
            with self.lock:
                self.ended += 1
        return super().embed(texts)


@pytest.fixture
def embedder() -> Iterator[HeldEmbedder]:
    made = HeldEmbedder()
    yield made
    made.go_on.set()


@pytest.fixture
def dsn() -> str:
    return fresh_dsn()


@pytest.fixture
def slow_dsn(dsn: str) -> Iterator[tuple[str, Any]]:
    """Of a database in which writes take far longer than its limit, and a connection to it."""
    with PostgresDatabase(dsn) as database:
        database.open("tea", HashingEmbedder(), create=True)
    with closing(psycopg.connect(dsn, autocommit=True)) as connection:
        slow_down_writes(connection)
        yield dsn, connection


def assert_nothing_written(connection: Any) -> None:
    await_idle(connection)
    assert connection.execute("SELECT documents, chunks, terms FROM ragtune.collections").fetchone() == (0, 0, 0)


def test_a_statement_that_the_database_cancels_is_a_timeout_by_rest_and_mcp(slow_dsn: tuple[str, Any]) -> None:
    database = PostgresDatabase(slow_dsn[0], statement_timeout_s=2.5)  # a much shorter limit than the server's
    limits = ServerLimits(timeout_s=HANG_S)
    with RagService(database, {"hashing": HashingEmbedder()}) as service:
        client = TestClient(create_application(service, limits=limits), base_url="http://localhost")
        response = client.post("/v1/ingest", json=INGEST)
        result: Any = asyncio.run(create_server(Runner(service, limits)).call_tool("ingest", INGEST))
    assert (response.status_code, response.headers["content-type"]) == (504, "application/problem+json")
    assert "2.5 s" in response.json()["detail"]
    assert result.is_error
    for problem in (response.json(), json.loads(result.content[0].text)):
        assert (problem["type"], problem["status"]) == ("urn:ragtune:problem:timeout", 504)
    assert_nothing_written(slow_dsn[1])


def test_the_database_of_a_command_has_the_time_limit_of_a_request(slow_dsn: tuple[str, Any]) -> None:
    dsn, connection = slow_dsn
    parser = argparse.ArgumentParser()
    add_service_options(parser)
    add_rerank_options(parser)
    arguments = parser.parse_args(["--dsn", dsn, "--timeout", "2.5"])
    with make_service(arguments) as service:
        client = TestClient(create_application(service, limits=make_limits(arguments)), base_url="http://localhost")
        assert client.post("/v1/ingest", json=INGEST).status_code == 504
        assert_nothing_written(connection)
        connection.execute("DROP TRIGGER slow ON ragtune.chunks_1")
        assert client.post("/v1/ingest", json=INGEST).status_code == 200


@pytest.fixture(params=["memory", "postgres"])
def database(request: pytest.FixtureRequest) -> Iterator[BaseDatabase]:
    dsn = request.getfixturevalue("dsn") if request.param == "postgres" else None
    with MemoryDatabase() if dsn is None else PostgresDatabase(dsn) as made:
        yield made


@pytest.fixture
def serve(embedder: HeldEmbedder) -> Iterator[Callable[..., TestClient]]:
    """``serve(database, limits)``: a client of a server with the empty collections ``tea`` and ``other``."""
    open_clients = []

    def make(database: BaseDatabase, limits: ServerLimits) -> TestClient:
        service = RagService(database, {"held": embedder})
        client = TestClient(create_application(service, limits=limits), base_url="http://localhost")
        open_clients.append(client.__enter__())  # one event loop for all requests
        for name in ("tea", "other"):
            assert client.post("/v1/collections", json={"collection": name}).status_code == 200
        return client

    yield make
    embedder.go_on.set()
    for client in open_clients:
        client.__exit__(None, None, None)


def ingest(client: TestClient, content: str, doc_id: str = "d", collection: str = "tea") -> int:
    documents = [{"doc_id": doc_id, "content": content}]
    return client.post("/v1/ingest", json={"collection": collection, "documents": documents}).status_code


def stored(client: TestClient, doc_id: str = "d") -> str:
    found = client.get("/v1/collections/tea/chunks", params={"doc_id": doc_id}).json()["chunks"]
    return " ".join(one["content"] for one in found)


@contextmanager
def clients_of(embedder: HeldEmbedder) -> Iterator[ThreadPoolExecutor]:
    """Threads of clients, which never wait for the embedder for good."""
    with ThreadPoolExecutor(10) as pool:
        try:
            yield pool
        finally:
            embedder.go_on.set()


def started(pool: ThreadPoolExecutor, embedder: HeldEmbedder, client: TestClient, *given: str) -> Future[int]:
    """A slow write that has arrived."""
    before = embedder.begun
    future = pool.submit(ingest, client, *given)
    wait_until(lambda: embedder.begun > before)
    return future


def test_a_write_that_timed_out_does_not_overwrite_a_newer_one(
    database: BaseDatabase, embedder: HeldEmbedder, serve: Callable[..., TestClient]
) -> None:
    client = serve(database, SHORT)
    assert ingest(client, "slow old") == 504
    assert ingest(client, "new") == 200
    embedder.go_on.set()
    wait_until(lambda: embedder.ended == 1)
    assert ingest(client, "slow, after all", "e") == 200  # so the thread of the old one has ended or written
    threading.Event().wait(0.5)
    assert stored(client) == "new"


def test_a_write_that_waited_for_a_lock_in_vain_is_cancelled_in_the_database(
    dsn: str, serve: Callable[..., TestClient]
) -> None:
    with PostgresDatabase(dsn) as database, closing(psycopg.connect(dsn)) as outsider:
        client = serve(database, SHORT)
        with outsider.transaction():
            outsider.execute("SELECT FROM ragtune.collections FOR UPDATE")
            assert ingest(client, "old") == 504
            assert client.request("DELETE", "/v1/collections/tea").status_code == 504
            with closing(psycopg.connect(dsn, autocommit=True)) as watcher:
                wait_until(lambda: watcher.execute(WAITING).fetchone() == (0,))  # while the lock is still held
        assert stored(client) == ""
        assert client.get("/v1/collections/tea").status_code == 200
        assert ingest(client, "new") == 200
        assert stored(client) == "new"


def test_writes_of_a_document_are_applied_in_order_of_arrival(
    database: BaseDatabase, embedder: HeldEmbedder, serve: Callable[..., TestClient]
) -> None:
    client = serve(database, ServerLimits(timeout_s=HANG_S))
    with clients_of(embedder) as pool:
        first = started(pool, embedder, client, "slow old")
        second = pool.submit(ingest, client, "new")
        assert ingest(client, "another document", "e") == 200  # which waits for nobody
        threading.Event().wait(0.3)
        assert not second.done()
        embedder.go_on.set()
        assert (first.result(HANG_S), second.result(HANG_S)) == (200, 200)
    assert stored(client) == "new"


def test_cancelled_work_ends_before_its_next_batch_and_healthz_reports_threads_that_hang(
    embedder: HeldEmbedder, serve: Callable[..., TestClient]
) -> None:
    client = serve(MemoryDatabase(), SHORT)
    documents = [{"doc_id": str(number), "content": f"slow {number}"} for number in range(200)]
    sent = {"collection": "tea", "documents": documents}
    assert client.get("/healthz").status_code == 200
    assert [client.post("/v1/ingest", json=sent).status_code for _ in range(3)] == [504] * 3
    assert embedder.begun == 2  # the third never got a thread
    for path in ("/healthz", "/readyz"):
        answer = client.get(path)
        assert (answer.status_code, answer.json()["type"]) == (503, "urn:ragtune:problem:hanging")
        assert "2 threads for writes" in answer.json()["detail"]
    embedder.go_on.set()
    wait_until(lambda: client.get("/healthz").status_code == 200)
    assert embedder.begun == 2  # of four batches each
    assert stored(client, "0") == ""


def test_small_requests_do_not_wait_for_slow_ones(embedder: HeldEmbedder, serve: Callable[..., TestClient]) -> None:
    client = serve(MemoryDatabase(), ServerLimits(timeout_s=20, threads=2))
    with clients_of(embedder) as pool:
        slow = [pool.submit(ingest, client, f"{HUGE} {number}", str(number)) for number in range(10)]
        wait_until(lambda: embedder.begun == 2)
        assert client.post("/v1/normalize", json={"content": "x"}).status_code == 200
        assert ingest(client, "tea", "small") == 200
        query = {"collection": "tea", "query": "tea", "plan": {"k": 1}}
        assert client.post("/v1/retrieve", json=query).json()["candidates"][0]["doc_id"] == "small"
        assert not any(one.done() for one in slow)
        embedder.go_on.set()
        assert [one.result(HANG_S) for one in slow] == [200] * 10
