"""PostgreSQL answers exactly what the reference in memory answers, whatever strings it is given."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from postgres_server import fresh_dsn

from ragtune.canonical.policies import RetrievalPlan
from ragtune.canonical.retrieval import retrieve
from ragtune.canonical.store import database as postgres_database
from ragtune.canonical.store.base import BaseStore
from ragtune.canonical.store.database import PostgresDatabase
from ragtune.canonical.store.memory import MemoryDatabase
from ragtune.canonical.types import Chunk, Filters
from ragtune.embedders.hashing import HashingEmbedder

EMBEDDER = HashingEmbedder(dims=8)
BY_SCORES = {"mode": "hybrid", "fusion": "scores", "weights": {"vector": 0.3}}
HOSTILE = (
    "'; DROP TABLE ragtune.collections; --",
    '"; DELETE FROM ragtune.chunks; --',
    "' OR 1=1 --",
    "\\'; SELECT pg_sleep(9); --",
    "%s %(tags_any)s %% $1 {0}",
    "'tea':1 & !'time' <-> b:*",
    "{a,b}",
    '{"a": 1}',
    "$$ NULL \\N \\x00",
    "\u202e\ufeff\u200b",
    "\u017f ß İ \u0131 Ω tea\u0301 \uff41",
    "E'\\\\'",
)
characters = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")
strings = st.one_of(st.sampled_from(HOSTILE), st.text(characters, max_size=12))
words = st.lists(st.sampled_from(["tea", "time", "green", "heart", "2024", "naïve", *HOSTILE]), max_size=6)
contents = st.one_of(words.map(" ".join), st.text(characters, max_size=60))
numbers = st.one_of(st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False))
json = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, strings),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(strings, inner, max_size=3)),
    max_leaves=6,
)
metadata = st.dictionaries(st.one_of(st.sampled_from(["a", "b"]), strings), json, max_size=3)
tags = st.lists(st.one_of(st.sampled_from(["red", "blue"]), strings.filter(bool)), max_size=3).map(tuple)
keys = st.tuples(st.one_of(st.sampled_from(["x", "y", "X"]), strings.filter(bool)), st.integers(0, 3))
corpora = st.dictionaries(keys, st.tuples(contents, tags, metadata), min_size=1, max_size=12)


@pytest.fixture(scope="module", params=[2000, 0], ids=["exact", "indexed"])
def postgres(request: pytest.FixtureRequest) -> Iterator[BaseStore]:
    dsn = fresh_dsn()
    with PostgresDatabase(dsn, exact_below=request.param) as database:
        yield database.open("tea", EMBEDDER, create=True)
    with psycopg.connect(dsn) as connection:
        tables = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'ragtune'").fetchone()
    assert tables == (6,)


@pytest.fixture(scope="module")
def memory() -> BaseStore:
    return MemoryDatabase().open("tea", EMBEDDER, create=True)


def fill(store: BaseStore, corpus: dict[tuple[str, int], Any]) -> Any:
    chunks = [Chunk(doc_id=k[0], chunk_index=k[1], content=c, tags=t, metadata=m) for k, (c, t, m) in corpus.items()]
    return store.upsert(chunks, EMBEDDER.embed([chunk.content for chunk in chunks]))


def everything(store: BaseStore) -> Any:
    doc_ids = store.doc_ids()
    chunks = [chunk.model_dump_json() for doc_id in doc_ids for chunk in store.chunks(doc_id)]
    return doc_ids, store.counts(), store.digests(doc_ids), chunks


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.data(),
    corpus=corpora,
    change=corpora,
    query=contents,
    mode=st.sampled_from([{"mode": "vector"}, {"mode": "lexical"}, {"mode": "hybrid"}, BY_SCORES]),
)
def test_postgres_is_the_reference(
    postgres: BaseStore, memory: BaseStore, data: Any, corpus: Any, change: Any, query: str, mode: Any
) -> None:
    for store in (postgres, memory):
        store.delete(store.doc_ids())
    used_tags = [tag for _, own, _ in corpus.values() for tag in own] or ["red"]
    used = [(key, value) for _, _, own in corpus.values() for key, value in own.items()] or [("a", 1)]
    filters = data.draw(
        st.builds(
            Filters,
            tags_any=st.one_of(st.just(()), st.lists(st.sampled_from(used_tags), max_size=2).map(tuple), tags),
            tags_all=st.one_of(st.just(()), st.lists(st.sampled_from(used_tags), max_size=2).map(tuple)),
            metadata=st.one_of(st.just({}), st.sampled_from(used).map(lambda pair: dict([pair])), metadata),
        )
    )
    plans = [RetrievalPlan(**mode, k=k, filters=kept) for k in (2, 50) for kept in (Filters(), filters)]
    for state in (corpus, change):
        assert fill(postgres, state) == fill(memory, state)
        assert everything(postgres) == everything(memory)
        for after in (query, *postgres.doc_ids()):
            assert postgres.doc_ids(after, 2) == memory.doc_ids(after, 2)
        for plan in plans:
            found = [
                [candidate.model_dump_json() for candidate in retrieve(query, plan, s)] for s in (postgres, memory)
            ]
            assert found[0] == found[1]
    gone = [key[0] for key in change]
    assert postgres.delete(gone) == memory.delete(gone)
    assert everything(postgres) == everything(memory)


def test_a_filter_that_keeps_only_what_is_far_from_the_query_loses_nothing(
    memory: BaseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # More pass than are compared one by one, and none of them is among those that the index visits before it gives up.
    rng = np.random.default_rng(2)
    chunks = [
        Chunk(doc_id=f"d{i:04d}", chunk_index=0, content="tea", tags=("far",) * (i % 3 == 0)) for i in range(2400)
    ]
    vectors = rng.standard_normal((2400, 8)) * 0.3 + np.eye(8)[0]
    vectors[::3] *= -1
    monkeypatch.setattr(postgres_database, "EF_SEARCH", 10)
    monkeypatch.setattr(postgres_database, "MAX_SCAN_TUPLES", 1)
    with PostgresDatabase(fresh_dsn(), exact_below=10) as database:
        store = database.open("tea", EMBEDDER, create=True)
        memory.delete(memory.doc_ids())
        for one in (store, memory):
            one.upsert(chunks, vectors)
        for filters in (Filters(tags_any=("far",)), Filters(tags_any=("far",), tags_all=("far",))):
            found = [one.vector_candidates(vectors[1], 5, filters) for one in (store, memory)]
            assert found[0] == found[1]
            assert len(found[0]) == 5
