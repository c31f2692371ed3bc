"""The reference schema (rule D13), as the server itself describes it."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from postgres_server import fresh_dsn

from ragtune.canonical.policies import RetrievalPlan
from ragtune.canonical.retrieval import index, retrieve
from ragtune.canonical.store import writing
from ragtune.canonical.store.database import PostgresDatabase
from ragtune.canonical.store.memory import MemoryDatabase
from ragtune.canonical.store.statements import BUILT, FANOUT
from ragtune.canonical.types import Chunk
from ragtune.embedders.hashing import HashingEmbedder

Rows = list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def server() -> Iterator[psycopg.Connection[Any]]:
    dsn = fresh_dsn()
    with PostgresDatabase(dsn, exact_below=0) as database:
        store = database.open("tea", HashingEmbedder(dims=8), create=True)
        index([Chunk(doc_id="x", chunk_index=0, content="green tea", metadata={"lang": "en"})], store)
        with psycopg.connect(dsn) as connection:
            yield connection


def ask(server: psycopg.Connection[Any], sql: str) -> Rows:
    return server.execute(sql).fetchall()


def test_a_collection_has_its_model_and_dims(server: psycopg.Connection[Any]) -> None:
    rows = ask(server, "SELECT name, embed_model, embed_dims FROM ragtune.collections")
    assert rows == [("tea", HashingEmbedder(dims=8).name, 8)]


def test_documents_have_their_metadata(server: psycopg.Connection[Any]) -> None:
    assert ask(server, "SELECT doc_id, metadata FROM ragtune.documents") == [("x", {"lang": "en"})]


def test_chunks_are_unique_by_collection_document_and_index(server: psycopg.Connection[Any]) -> None:
    sql = "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'ragtune.chunks'::regclass"
    assert ("UNIQUE (collection_id, doc_id, chunk_index)",) in ask(server, sql)


def test_vectors_have_the_collections_dims_and_an_hnsw_index_with_cosine_ops(server: psycopg.Connection[Any]) -> None:
    assert ask(server, "SELECT vector_dims(embedding) FROM ragtune.chunks") == [(8,)]
    definitions = [row[0] for row in ask(server, "SELECT indexdef FROM pg_indexes WHERE schemaname = 'ragtune'")]
    assert any("USING hnsw" in one and "vector_cosine_ops" in one and "vector(8)" in one for one in definitions)


def test_terms_are_a_generated_tsvector_with_a_gin_index(server: psycopg.Connection[Any]) -> None:
    sql = (
        "SELECT data_type, is_generated FROM information_schema.columns "
        "WHERE table_schema = 'ragtune' AND table_name = 'chunks' AND column_name = 'tsv'"
    )
    assert ask(server, sql) == [("tsvector", "ALWAYS")]
    definitions = [row[0] for row in ask(server, "SELECT indexdef FROM pg_indexes WHERE schemaname = 'ragtune'")]
    assert any("USING gin (tsv" in one for one in definitions)


def test_blocks_of_many_writes_are_joined_and_rebuilt_when_most_of_their_chunks_are_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writing, "_MOST_GONE", 30)
    monkeypatch.setattr(writing, "_BLOCK", 25)
    dsn = fresh_dsn()
    memory = MemoryDatabase().open("tea", HashingEmbedder(dims=8), create=True)
    with PostgresDatabase(dsn) as database, psycopg.connect(dsn, autocommit=True) as connection:
        store = database.open("tea", HashingEmbedder(dims=8), create=True)

        def levels_after(writes: range) -> set[int]:
            for place in writes:
                for one in (store, memory):
                    text = f"green tea number {place}" + " and more" * (place % 5)
                    index([Chunk(doc_id=f"d{place % 7}", chunk_index=0, content=text)], one)
            for query in ("tea", "more tea 39", "number 12"):
                plan = RetrievalPlan(mode="lexical")
                assert retrieve(query, plan, store) == retrieve(query, plan, memory)
            rows = ask(connection, "SELECT level, count(*) FROM ragtune.postings_1 WHERE term = 'tea' GROUP BY level")
            assert all(count < 2 * FANOUT for _, count in rows)
            return {level for level, _ in rows}

        assert levels_after(range(35)) == {0, 1}
        assert ask(connection, "SELECT gone FROM ragtune.collections") == [(28,)]
        assert levels_after(range(35, 47)) == {0, BUILT}
        for one in (store, memory):
            one.delete(["d3"])
        assert levels_after(range(47, 48)) == {0, BUILT}


def test_a_database_of_version_4_is_upgraded_in_place() -> None:
    dsn = fresh_dsn()
    with PostgresDatabase(dsn) as database:
        database.open("old", HashingEmbedder(dims=8), create=True)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("ALTER TABLE ragtune.collections DROP COLUMN settings")
        connection.execute("UPDATE ragtune.schema_version SET version = 4")
    with PostgresDatabase(dsn) as database:
        store = database.open("old", HashingEmbedder(dims=8))
        store.save_settings({"fusion": {"weights": {"vector": 0.5}}})
        assert database.settings("old") == {"fusion": {"weights": {"vector": 0.5}}}
