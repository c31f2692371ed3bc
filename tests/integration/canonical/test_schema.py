"""The reference schema (rule D13), as the server itself describes it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
import pytest
from postgres_server import fresh_dsn

from ragtune.canonical.analyzers import load_analyzer
from ragtune.canonical.indexing import index
from ragtune.canonical.policies import RetrievalPlan
from ragtune.canonical.retrieval import retrieve
from ragtune.canonical.store import postings, ranking
from ragtune.canonical.store.database import PostgresDatabase
from ragtune.canonical.store.memory import MemoryDatabase
from ragtune.canonical.store.statements import Statements
from ragtune.canonical.types import Chunk
from ragtune.embedders.hashing import HashingEmbedder

Rows = list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def server() -> Iterator[psycopg.Connection[Any]]:
    """A database with one small collection whose indexes are built."""
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


def test_a_page_of_document_ids_reads_no_more_than_it_shows(server: psycopg.Connection[Any]) -> None:
    sql = Statements(1, 8).read_doc_ids()
    with server.transaction(force_rollback=True):
        server.execute(
            "INSERT INTO ragtune.documents SELECT 1, 'd' || lpad(n::text, 5, '0'), '', '{}' "
            "FROM generate_series(1, 20000) n"
        )
        server.execute("ANALYZE ragtune.documents")
        assert server.execute(sql, ("d10000", 3)).fetchall() == [("d10001",), ("d10002",), ("d10003",)]
        ((plan,),) = server.execute(b"EXPLAIN (ANALYZE, FORMAT JSON) " + sql, ("d10000", 3)).fetchall()
    scans = [node for node in nodes(plan[0]["Plan"]) if node.get("Relation Name") == "documents"]
    assert [(node["Actual Rows"], node["Index Name"]) for node in scans] == [(3, "documents_pkey")]


def test_few_that_pass_a_filter_are_found_at_the_end_of_a_table_without_reading_all_of_it(
    server: psycopg.Connection[Any],
) -> None:
    sql = Statements(1, 8).postings.matching("tags && %(tags_any)s::text[]", False)
    with server.transaction(force_rollback=True):
        server.execute("DROP INDEX ragtune.chunks_1_hnsw")  # which would take long to fill
        server.execute(
            "INSERT INTO ragtune.chunks (collection_id, doc_id, chunk_index, content, tags, metadata, span_start, "
            "span_end, embedding, length, lexemes, digest) SELECT 1, 'x', n, '', CASE WHEN n > 4500 THEN '{late}' ELSE "
            "'{}' END::text[], '{}', 0, 0, ('[1,0,0,0,0,0,0,' || n || ']')::vector, 0, '', '' "
            "FROM generate_series(1, 5000) n"
        )
        server.execute("ANALYZE ragtune.chunks_1")
        values = {"tags_any": ["late"], "limit": 5}
        ((plan,),) = server.execute(b"EXPLAIN (ANALYZE, FORMAT JSON) " + sql, values).fetchall()
    (scan,) = (node for node in nodes(plan[0]["Plan"]) if node.get("Relation Name") == "chunks_1")
    assert (scan["Node Type"], scan["Actual Rows"]) == ("Bitmap Heap Scan", 5)


_BEFORE = {
    # No analyzers, no postings, words of one letter and combining marks left out.
    1: "DROP TABLE ragtune.places_1, ragtune.postings_1; ALTER TABLE ragtune.collections DROP COLUMN analyzer, "
    "DROP COLUMN is_posted, DROP COLUMN places, DROP COLUMN writes",
    # Postings of another layout.
    2: "UPDATE ragtune.postings_1 SET content = decode(repeat('00', 10 * n), 'hex')",
}


@pytest.fixture(params=_BEFORE)
def old_dsn(request: pytest.FixtureRequest) -> str:
    """A database of an earlier version."""
    dsn = fresh_dsn()
    with PostgresDatabase(dsn) as database:
        store = database.open("tea", HashingEmbedder(dims=8), create=True, analyzer="english-1")
        index([Chunk(doc_id=f"d{place}", chunk_index=0, content=f"green tea {place} R") for place in range(9)], store)
    with psycopg.connect(dsn) as connection:
        connection.execute(_BEFORE[request.param])
        connection.execute("UPDATE ragtune.schema_version SET version = %s", (request.param,))
    return dsn


def test_opening_a_database_of_before_makes_its_postings_and_says_so(
    old_dsn: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for module in (ranking, postings):
        monkeypatch.setattr(module, "RANGE_BITS", 2)
    chunks = [Chunk(doc_id=f"d{place}", chunk_index=0, content=f"green tea {place} R") for place in range(9)]
    reference = MemoryDatabase().open("tea", HashingEmbedder(dims=8), create=True, analyzer="english-1")
    index(chunks, reference)
    with caplog.at_level(logging.WARNING), PostgresDatabase(old_dsn) as database:
        store = database.open("tea", HashingEmbedder(dims=8))
        with psycopg.connect(old_dsn) as connection:
            assert ask(connection, "SELECT is_posted, places, writes FROM ragtune.collections") == [(True, 9, 0)]
            assert ask(connection, "SELECT term, first, n FROM ragtune.postings_1 WHERE term = 'tea' ORDER BY 2") == [
                ("tea", 0, 4),
                ("tea", 4, 4),
                ("tea", 8, 1),
            ]
        for query in ("green tea 4 R", "R", "tea"):
            assert retrieve(query, RetrievalPlan(mode="lexical"), store) == retrieve(
                query, RetrievalPlan(mode="lexical"), reference
            )
        assert store.collection.analyzer == load_analyzer("english-1").identity
        assert index(chunks, store)["unchanged"] == 9
    told = [record.getMessage() for record in caplog.records]
    assert "(collections: 1, chunks: 9)" in told[0]
    assert told[-1] == "'tea': 9 of 9 chunks have postings"
    PostgresDatabase(old_dsn).close()


def test_an_upgrade_that_is_cut_short_leaves_the_database_as_it_was(
    old_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_short(*arguments: Any) -> None:
        raise KeyboardInterrupt

    everything = (
        "SELECT (SELECT version FROM ragtune.schema_version), (SELECT to_jsonb(c) FROM ragtune.collections c), "
        "(SELECT count(*) FROM pg_tables WHERE schemaname = 'ragtune')"
    )
    with psycopg.connect(old_dsn, autocommit=True) as connection:
        before = ask(connection, everything)
        with monkeypatch.context() as patched:
            patched.setattr(postings.PostingStatements, "done", cut_short)
            with pytest.raises(KeyboardInterrupt):
                PostgresDatabase(old_dsn)
        assert ask(connection, everything) == before
    with PostgresDatabase(old_dsn) as database:
        assert retrieve("tea", RetrievalPlan(mode="lexical"), database.open("tea", HashingEmbedder(dims=8)))


@pytest.mark.parametrize("bits", [ranking.RANGE_BITS, 2])
def test_blocks_of_many_writes_are_joined_and_what_is_gone_stays_gone(
    bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (ranking, postings):
        monkeypatch.setattr(module, "RANGE_BITS", bits)
    dsn = fresh_dsn()
    memory = MemoryDatabase().open("tea", HashingEmbedder(dims=8), create=True)
    with PostgresDatabase(dsn) as database, psycopg.connect(dsn, autocommit=True) as connection:
        store = database.open("tea", HashingEmbedder(dims=8), create=True)
        for place in range(40):
            for one in (store, memory):
                text = f"green tea number {place}" + " and more" * (place % 5)
                index([Chunk(doc_id=f"d{place % 7}", chunk_index=0, content=text)], one)
        for one in (store, memory):
            one.delete(["d3"])
        levels = "SELECT level, count(*) FROM ragtune.postings_1 WHERE term = 'tea' GROUP BY level ORDER BY level"
        found = dict(ask(connection, levels))
        assert set(found) == {0, 1, 99}
        assert max(found[0] / 2, found[1] / 2) < postings.FANOUT
        for query in ("tea", "more tea 39", "number 12"):
            plan = RetrievalPlan(mode="lexical")
            assert retrieve(query, plan, store) == retrieve(query, plan, memory)


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """Of a query's plan, in any order."""
    return [plan, *(node for inner in plan.get("Plans", ()) for node in nodes(inner))]


def _rows_visited(plan: Mapping[str, Any]) -> float:
    own = plan["Actual Rows"] * plan["Actual Loops"]
    return float(own + sum(map(_rows_visited, plan.get("Plans", ()))))


def test_blocks_are_joined_in_time_that_grows_with_their_number_although_statistics_know_none_of_them() -> None:
    dsn = fresh_dsn()
    with PostgresDatabase(dsn) as database, psycopg.connect(dsn) as connection:
        store = database.open("tea", HashingEmbedder(dims=8), create=True)
        index([Chunk(doc_id="first", chunk_index=0, content="tea")], store)
        connection.execute("UPDATE ragtune.postings_1 SET level = 99")
        connection.execute("ANALYZE ragtune.postings_1")
        connection.commit()
        for place in range(10):
            content = " ".join(f"w{number}" for number in range(place, place + 50))
            index([Chunk(doc_id=f"d{place}", chunk_index=0, content=content)], store)
        ((joined,),) = ask(connection, "SELECT count(*) FROM ragtune.postings_1 WHERE level = 0")
        join = Statements(1, 8).postings.join().decode()
        explained = connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {join}".encode(), {"level": 0})
        ((plans,),) = explained.fetchall()
        assert joined > 500
        assert _rows_visited(plans[0]["Plan"]) < 20 * joined
