"""A request that PostgreSQL takes too long for is answered as such, and the server stops working on it."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from patience import HANG_S
from postgres_server import await_idle, fresh_dsn, slow_down_writes
from starlette.testclient import TestClient

from ragtune.canonical.service import RagService
from ragtune.canonical.store.database import PostgresDatabase
from ragtune.cli.commands.options import add_service_options, make_limits, make_service
from ragtune.embedders.hashing import HashingEmbedder
from ragtune.rerankers.models.bi_encoder import BiEncoderReranker
from ragtune.services.application import create_application
from ragtune.services.limits import Runner, ServerLimits
from ragtune.services.mcp import create_server

EMBEDDER = HashingEmbedder()
GENEROUS = ServerLimits(timeout_s=HANG_S)
INGEST = {"collection": "tea", "documents": [{"doc_id": "after", "content": "Tea."}]}
TIMEOUT = "urn:ragtune:problem:timeout"


@pytest.fixture
def dsn() -> str:
    """Of a database whose collection ``tea`` is empty."""
    made = fresh_dsn()
    with PostgresDatabase(made) as database:
        database.open("tea", EMBEDDER, create=True)
    return made


@pytest.fixture
def outsider(dsn: str) -> Iterator[Any]:
    """Writes to the collection take far longer than any limit here but the generous one."""
    with closing(psycopg.connect(dsn, autocommit=True)) as connection:
        slow_down_writes(connection)
        yield connection


@pytest.fixture
def service(dsn: str) -> Iterator[RagService]:
    """Whose database has a much shorter limit than its servers."""
    with RagService(PostgresDatabase(dsn, statement_timeout_s=2.5), {"hashing": EMBEDDER}) as made:
        yield made


def assert_nothing_written(outsider: Any) -> None:
    await_idle(outsider)
    assert outsider.execute("SELECT documents, chunks, terms FROM ragtune.collections").fetchone() == (0, 0, 0)
    for table in ("documents", "chunks"):
        assert outsider.execute(f"SELECT FROM ragtune.{table}").fetchall() == []


def test_a_statement_that_the_database_cancels_is_a_timeout(service: RagService, outsider: Any) -> None:
    client = TestClient(create_application(service, limits=GENEROUS), base_url="http://localhost")
    response = client.post("/v1/ingest", json=INGEST)
    assert (response.status_code, response.headers["content-type"]) == (504, "application/problem+json")
    assert response.json()["type"] == TIMEOUT
    assert "2.5 s" in response.json()["detail"]
    result: Any = asyncio.run(create_server(Runner(service, GENEROUS)).call_tool("ingest", INGEST))
    assert result.is_error
    problem = json.loads(result.content[0].text)
    assert (problem["type"], problem["status"]) == (TIMEOUT, 504)
    assert_nothing_written(outsider)


def test_the_database_of_a_command_has_the_time_limit_of_a_request(dsn: str, outsider: Any) -> None:
    parser = argparse.ArgumentParser()
    add_service_options(parser)
    arguments = parser.parse_args(["--dsn", dsn, "--timeout", "2.5"])
    with make_service(arguments) as service:
        client = TestClient(create_application(service, limits=make_limits(arguments)), base_url="http://localhost")
        response = client.post("/v1/ingest", json=INGEST)
        assert (response.status_code, response.json()["type"]) == (504, TIMEOUT)
        assert_nothing_written(outsider)
        outsider.execute("DROP TRIGGER slow ON ragtune.chunks_1")
        assert client.post("/v1/ingest", json=INGEST).status_code == 200


def test_models_are_made_ready_before_a_command_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[str] = []
    for kind in (HashingEmbedder, BiEncoderReranker):
        monkeypatch.setattr(kind, "prepare", lambda self: prepared.append(type(self).__name__))
    parser = argparse.ArgumentParser()
    add_service_options(parser)
    with make_service(parser.parse_args(["--store", "memory", "--reranker", "hashing"])):
        assert prepared == ["HashingEmbedder", "BiEncoderReranker"]
