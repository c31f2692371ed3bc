"""A table of somebody's database is searched where it is: real PostgreSQL, real command."""

from __future__ import annotations

import json

import psycopg
import pytest
from postgres_server import fresh_dsn

from ragtune.canonical import Filters, RetrievalPlan, embed, retrieve
from ragtune.canonical.store.attached import attach
from ragtune.cli.main import main
from ragtune.core.errors import CollectionMismatchError, StoreError
from ragtune.embedders.hashing import HashingEmbedder

TEXTS = ["Green tea wants 80 degrees.", "Black tea is boiled.", "Bread is baked, and bread is eaten.", "Ships at sea."]


@pytest.fixture(params=["real[]", "vector(64)"])
def dsn(request: pytest.FixtureRequest) -> str:
    """A table with vectors as arrays, which needs no extension, or as pgvector's; no schema of ours."""
    dsn, embedder = fresh_dsn(), HashingEmbedder(dims=64)
    with psycopg.connect(dsn, autocommit=True) as connection:
        if request.param.startswith("vector"):
            connection.execute("CREATE EXTENSION vector")
        connection.execute(
            "CREATE SCHEMA app; CREATE TABLE app.notes (key int PRIMARY KEY, body text, year int, "
            f"words tsvector GENERATED ALWAYS AS (to_tsvector('english', body)) STORED, v {request.param})"
        )
        for key, (text, vector) in enumerate(zip(TEXTS, embed(TEXTS, embedder, cache_dir=None), strict=True)):
            value = vector.tolist() if "[" in request.param else str(vector.tolist())
            connection.execute(
                "INSERT INTO app.notes (key, body, year, v) VALUES (%s, %s, %s, %s)", (key, text, key, value)
            )
    return dsn


@pytest.mark.parametrize("tsv", [None, "words"])
def test_a_table_is_searched_by_words_vectors_and_both(dsn: str, tsv: str | None) -> None:
    embedder = HashingEmbedder(dims=64)
    with attach(dsn, embedder, "app.notes", "key", "body", tsv, "v") as table:
        for mode in ("lexical", "vector", "hybrid"):
            found = retrieve("hot black teas", RetrievalPlan(mode=mode, k=2), table)  # type: ignore[arg-type]
            assert [one.doc_id for one in found] == ["1", "0"], mode
        exact = table.vector_candidates(embed([TEXTS[2]], embedder)[0], 1, Filters())
        assert (exact[0].content, exact[0].score) == (TEXTS[2], 1.0)
        assert [one.doc_id for one in table.lexical_candidates("tea", 5, Filters(metadata={"year": 0}))] == ["0"]
        assert table.lexical_candidates("the of and", 5, Filters()) == []
    with psycopg.connect(dsn) as connection:
        assert connection.execute("SELECT count(*) FROM pg_namespace WHERE nspname = 'ragtune'").fetchone() == (0,)


def test_odd_names_and_values_are_searched(dsn: str) -> None:
    embedder, zeros = HashingEmbedder(dims=64), str([0] * 64)
    with psycopg.connect(dsn, autocommit=True) as connection:
        (kind,) = connection.execute("SELECT pg_typeof(v)::text FROM app.notes LIMIT 1").fetchone() or ("",)
        value = zeros.replace("[", "{").replace("]", "}") if "[" in kind else zeros
        connection.execute("INSERT INTO app.notes (key, body, v) VALUES (9, NULL, %s)", (value,))
        connection.execute('ALTER TABLE app.notes RENAME body TO "100%s ""x"; ALTER TABLE app.notes RENAME v TO "v%"')
    with attach(dsn, embedder, "app.notes", "key", '100%s "x', vector="v%") as table:
        assert len(table.vector_candidates(embed(["tea"], embedder)[0], 9, Filters())) == len(TEXTS)
        assert table.vector_candidates(embed(["?!"], embedder)[0], 9, Filters()) == []
        assert table.lexical_candidates("ships", 5, Filters())[0].doc_id == "3"
    with attach(dsn, embedder, "app.notes", "key", "year") as table:
        assert [one.doc_id for one in table.lexical_candidates("3", 5, Filters())] == ["3"]


def test_what_does_not_fit_is_one_line(dsn: str) -> None:
    with pytest.raises(CollectionMismatchError, match=r"app.notes.v has vectors of 64 dims; .* has 256"):
        attach(dsn, HashingEmbedder(), "app.notes", "key", "body", vector="v").__enter__()
    missing = attach(dsn, HashingEmbedder(), "app.notes", "key", "content")
    with pytest.raises(StoreError, match=r"column t\.content does not exist"), missing as table:
        table.lexical_candidates("tea", 5, Filters())


def test_the_command_searches_a_table(dsn: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--table", "app.notes", "--id", "key", "--text", "body", "--dsn", dsn]
    assert main(["search", "eating bread", *words]) == 0
    assert "1. 2  (lexical" in (out := capsys.readouterr().out)
    assert "*Bread* is baked" in out
    assert main(["search", "tea", *words, "--json", "--where", "year=1"]) == 0
    assert [one["doc_id"] for one in json.loads(capsys.readouterr().out)["results"]] == ["1"]
