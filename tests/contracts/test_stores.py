"""What every canonical store promises (``BaseDatabase``, ``BaseStore``; rules D5 to D8, D12 and D13)."""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from postgres_server import fresh_dsn

from ragtune.canonical import analyzers
from ragtune.canonical.analyzers import load_analyzer
from ragtune.canonical.store.base import BaseDatabase, BaseStore
from ragtune.canonical.store.database import PostgresDatabase
from ragtune.canonical.store.memory import MemoryDatabase
from ragtune.canonical.store.rows import document_digest
from ragtune.canonical.types import Chunk, Embedding, Filters, StoreCounts, UpsertCounts
from ragtune.core.errors import CollectionMismatchError, ConfigError, InputError, UnknownCollectionError
from ragtune.embedders.hashing import HashingEmbedder

EMBEDDER = HashingEmbedder(dims=32)
ALL = Filters()
DATABASES: dict[str, Callable[[], BaseDatabase]] = {
    "memory": MemoryDatabase,
    "postgres": lambda: PostgresDatabase(fresh_dsn()),
    # The same promises where every search goes through the HNSW and GIN indexes.
    "postgres_indexed": lambda: PostgresDatabase(fresh_dsn(), exact_below=0),
}


@pytest.fixture(scope="module", params=DATABASES)
def shared_database(request: pytest.FixtureRequest) -> Iterator[BaseDatabase]:
    with DATABASES[request.param]() as database:
        yield database


@pytest.fixture
def database(shared_database: BaseDatabase) -> Iterator[BaseDatabase]:
    yield shared_database
    for collection in shared_database.collections():
        shared_database.drop(collection.name)


@pytest.fixture
def store(database: BaseDatabase) -> BaseStore:
    return database.open("tea", EMBEDDER, create=True)


def chunk(doc_id: str, chunk_index: int = 0, content: str = "tea", **more: Any) -> Chunk:
    return Chunk(doc_id=doc_id, chunk_index=chunk_index, content=content, **more)


def vectors(chunks: Sequence[Chunk]) -> Embedding:
    return EMBEDDER.embed([one.content for one in chunks])


def put(store: BaseStore, *chunks: Chunk) -> UpsertCounts:
    return store.upsert(chunks, vectors(chunks))


def by_vector(store: BaseStore, query: str, k: int = 10, filters: Filters = ALL) -> list[tuple[str, int]]:
    return [candidate.key for candidate in store.vector_candidates(EMBEDDER.embed([query])[0], k, filters)]


def by_term(store: BaseStore, query: str, k: int = 10, filters: Filters = ALL) -> list[tuple[str, int]]:
    return [candidate.key for candidate in store.lexical_candidates(query, k, filters)]


def test_an_unknown_collection_is_refused_by_name_with_those_that_exist(database: BaseDatabase) -> None:
    database.open("teas", EMBEDDER, create=True)
    with pytest.raises(UnknownCollectionError, match=r"'coffee'.*'teas'"):
        database.open("coffee", EMBEDDER)


def test_other_dims_are_refused_naming_model_and_dims_of_both(database: BaseDatabase) -> None:
    database.open("tea", EMBEDDER, create=True)
    with pytest.raises(CollectionMismatchError, match=r"dims=32.* 32 dims.*dims=8.* 8 dims"):
        database.open("tea", HashingEmbedder(dims=8), create=True)


def test_another_model_of_the_same_dims_is_refused_naming_both(database: BaseDatabase) -> None:
    class Other(HashingEmbedder):
        @property
        def name(self) -> str:
            return "another model"

    database.open("tea", EMBEDDER, create=True)
    with pytest.raises(CollectionMismatchError, match=r"hashing.*another model"):
        database.open("tea", Other(dims=32))


def test_the_analyzer_is_kept_and_another_one_refused_naming_both(database: BaseDatabase) -> None:
    store = database.open("haus", EMBEDDER, create=True, analyzer="german")
    put(store, chunk("x", content="Die H\u00e4user am Hafen"))
    again = database.open("haus", EMBEDDER, create=True)
    assert by_term(again, "Haus") == [("x", 0)]
    assert again.collection.analyzer == load_analyzer("german").identity
    with pytest.raises(CollectionMismatchError, match=r"'haus' is analyzed by 'german-2 .*'english-2 "):
        database.open("haus", EMBEDDER, analyzer="english")
    with pytest.raises(ConfigError, match=r"analyzer='klingon': allowed are arabic, .*, cjk, none"):
        database.open("new", EMBEDDER, create=True, analyzer="klingon")
    database.open("Haus", EMBEDDER, create=True)
    assert [one.name for one in database.collections()] == ["Haus", "haus"]


def test_an_analyzer_that_is_another_one_by_now_is_refused_naming_both(
    database: BaseDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.open("tea", EMBEDDER, create=True)
    newer = replace(load_analyzer("english"), details="stopwords=0 snowball=99")
    monkeypatch.setattr(analyzers, "load_analyzer", lambda name: newer)
    with pytest.raises(CollectionMismatchError, match=r"'english-2 stopwords=33:.* installation has 'english-2 .*=99'"):
        database.open("tea", EMBEDDER)


@pytest.mark.parametrize("name", ["", "a b", "x" * 64, "tee\x00"])
def test_a_collection_name_that_is_not_allowed_is_refused(database: BaseDatabase, name: str) -> None:
    with pytest.raises(InputError):
        database.open(name, EMBEDDER, create=True)
    assert database.collections() == []


def test_collections_do_not_see_each_other(database: BaseDatabase) -> None:
    one, other = (database.open(name, EMBEDDER, create=True) for name in ("one", "other"))
    put(one, chunk("x"))
    put(other, chunk("y"))
    assert by_term(one, "tea") == [("x", 0)] == by_vector(one, "tea")
    assert other.doc_ids() == ["y"]


def test_a_dropped_collection_is_gone_for_those_who_had_it_open(database: BaseDatabase, store: BaseStore) -> None:
    put(store, chunk("x"))
    by_vector(store, "tea")
    assert database.drop("tea")
    assert not database.drop("tea")
    uses: list[Callable[[], object]] = [
        lambda: by_vector(store, "tea"),
        lambda: by_term(store, "tea"),
        lambda: by_term(store, "the"),
        lambda: put(store, chunk("y")),
        lambda: store.delete(["x"]),
        lambda: store.chunks("x"),
        lambda: store.doc_ids(),
        lambda: store.doc_ids("x", 1),
        lambda: store.digests(["x"]),
        lambda: store.counts(),
    ]
    for use in uses:
        with pytest.raises(UnknownCollectionError, match="tea"):
            use()


def test_upserting_the_same_again_changes_nothing(store: BaseStore) -> None:
    chunks = [chunk("x", 0, "green tea"), chunk("x", 1, "black tea"), chunk("y")]
    assert put(store, *chunks) == UpsertCounts(documents=2, inserted=3)
    assert put(store, *reversed(chunks)) == UpsertCounts(documents=2, unchanged=3)
    assert store.counts() == StoreCounts(documents=2, chunks=3)


def test_a_changed_document_replaces_its_chunks_and_leaves_no_orphan(store: BaseStore) -> None:
    put(store, chunk("x", 0, "green tea"), chunk("x", 1, "black tea"), chunk("x", 2, "old coffee"), chunk("y"))
    changed = put(store, chunk("x", 0, "green tea"), chunk("x", 1, "white tea"))
    assert changed == UpsertCounts(documents=1, updated=1, unchanged=1, deleted=1)
    assert [one.content for one in store.chunks("x")] == ["green tea", "white tea"]
    assert by_term(store, "coffee black") == []
    assert store.counts() == StoreCounts(documents=2, chunks=3)


@pytest.mark.parametrize(
    "change",
    [{"tags": ("a",)}, {"metadata": {"a": 1}}, {"start": 1}, {"end": 9}, {"content": "coffee"}],
    ids=lambda change: next(iter(change)),
)
def test_a_change_of_any_part_is_an_update(store: BaseStore, change: dict[str, Any]) -> None:
    old = chunk("x")
    put(store, old)
    new = old.model_copy(update=change)
    assert store.upsert([new], vectors([old])) == UpsertCounts(documents=1, updated=1)
    assert store.chunks("x") == [new]


def test_chunks_come_back_in_order_with_tags_sorted_and_metadata_as_given(store: BaseStore) -> None:
    metadata = {"b": [1, 2.5, None, True, {"ü": "‮"}], "a": -0.0, "large": 1e23, "int": 2**70, "": "'; --"}
    put(store, chunk("x", 1, "zwei", start=4, end=8), chunk("x", 0, "eins", tags=("b", "a", "b"), metadata=metadata))
    first, second = store.chunks("x")
    assert (first.content, second.content, second.start, second.end) == ("eins", "zwei", 4, 8)
    assert first.tags == ("a", "b")
    assert first.metadata == {**metadata, "large": 10**23}
    assert store.chunks("nowhere") == []
    chunks, vectors = store.contents()
    assert chunks == [first, second]
    assert vectors.shape == (2, store.collection.embed_dims)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no_doc_id": ({"doc_id": ""}, "doc_id"),
    "nul_in_doc_id": ({"doc_id": "a\x00"}, "doc_id"),
    "long_doc_id": ({"doc_id": "é" * 513}, "1026 bytes"),
    "nan_in_metadata": ({"metadata": {"a": math.nan}}, "metadata"),
    "nul_in_metadata": ({"metadata": {"a": ["\x00"]}}, "metadata"),
    "no_json": ({"metadata": {"a": {1, 2}}}, "metadata"),
    "large_index": ({"chunk_index": 2**31}, "chunk_index"),
}


@pytest.mark.parametrize(("fields", "message"), BAD.values(), ids=BAD)
def test_what_cannot_be_stored_is_refused_and_nothing_of_the_call_is_written(
    store: BaseStore, fields: dict[str, Any], message: str
) -> None:
    bad = chunk("bad").model_copy(update=fields)
    with pytest.raises(InputError, match=message):
        store.upsert([chunk("good"), bad], np.ones((2, 32), dtype=np.float32))
    assert store.counts() == StoreCounts(documents=0, chunks=0)


@pytest.mark.parametrize(
    "embeddings",
    [np.ones((1, 31)), np.ones((2, 32)), np.ones(32), np.full((1, 32), np.nan), np.full((1, 32), np.inf)],
    ids=["dims", "count", "axes", "nan", "inf"],
)
def test_vectors_that_do_not_fit_are_refused(store: BaseStore, embeddings: Any) -> None:
    with pytest.raises(InputError, match="embeddings"):
        store.upsert([chunk("x")], embeddings)
    assert store.doc_ids() == []


def test_a_key_that_occurs_twice_is_refused_by_name(store: BaseStore) -> None:
    with pytest.raises(InputError, match=r"\('x', 3\)"):
        put(store, chunk("x", 3), chunk("x", 3, "other"))
    assert store.doc_ids() == []


def test_loading_is_the_same_as_upserting_each_batch(store: BaseStore) -> None:
    batches = [[chunk("x", 0), chunk("x", 1)], [chunk("y")], [chunk("x", 0)], []]
    counts = store.load((batch, vectors(batch)) for batch in batches)
    assert counts == UpsertCounts(documents=3, inserted=3, unchanged=1, deleted=1)
    assert store.counts() == StoreCounts(documents=2, chunks=2)
    assert by_term(store, "tea") == [("x", 0), ("y", 0)] == by_vector(store, "tea")


def test_deleting_removes_documents_with_their_chunks_and_counts_those_that_were_there(store: BaseStore) -> None:
    put(store, chunk("x", 0), chunk("x", 1), chunk("y"))
    assert store.delete(["x", "nowhere", "x"]) == 1
    assert store.delete([]) == 0
    assert store.doc_ids() == ["y"]
    assert by_term(store, "tea") == [("y", 0)] == by_vector(store, "tea")
    assert store.counts() == StoreCounts(documents=1, chunks=1)


def test_digests_tell_a_changed_document_before_it_is_embedded(store: BaseStore) -> None:
    chunks = [chunk("x", 1, "two"), chunk("x", 0, "one", tags=("b", "a"), metadata={"b": 1.0, "a": 2})]
    put(store, *chunks, chunk("y"))
    assert store.digests(["x", "nowhere", "y"]) == {"x": document_digest(chunks), "y": document_digest([chunk("y")])}
    assert document_digest(chunks[:1]) != document_digest(chunks)


@pytest.mark.parametrize("limit", [1, 4, 9])
def test_pages_of_doc_ids_are_the_whole_list_by_code_point(store: BaseStore, limit: int) -> None:
    names = ["b", "a", "B", "ä", "a b", "a-b", "\U0001f375", "￿", "_"]
    put(store, *(chunk(name) for name in names))
    found = [store.doc_ids(limit=limit)]
    while len(found[-1]) == limit:
        found.append(store.doc_ids(found[-1][-1], limit))
    assert [doc_id for page in found for doc_id in page] == sorted(names) == store.doc_ids()
    with pytest.raises(InputError, match="limit="):
        store.doc_ids(limit=0)


def test_vector_search_scores_by_cosine(store: BaseStore) -> None:
    put(store, chunk("x", content="green tea"), chunk("y", content="green"), chunk("z", content="coffee"))
    found = store.vector_candidates(EMBEDDER.embed(["green tea"])[0], 2, ALL)
    assert [(one.key, one.score) for one in found] == [(("x", 0), 1.0), (("y", 0), pytest.approx(0.707107, abs=1e-6))]
    assert all(one.sources == {"vector": one.score} for one in found)


@pytest.mark.parametrize("search", [by_vector, by_term])
def test_ties_are_ordered_by_document_and_chunk(store: BaseStore, search: Callable[..., Any]) -> None:
    keys = [("b", 0), ("a", 10), ("a", 2), ("B", 1), ("a-", 0), ("ä", 0)]
    put(store, *(chunk(*key) for key in keys))
    assert search(store, "tea", 4) == sorted(keys)[:4]
    assert search(store, "tea", 100) == sorted(keys)


def test_what_the_embedder_knows_nothing_of_is_no_vector_candidate(store: BaseStore) -> None:
    put(store, chunk("empty", content=""), chunk("x"))
    assert by_vector(store, "tea") == [("x", 0)]
    assert by_vector(store, "") == []
    assert store.counts().chunks == 2


def test_lexical_search_finds_any_term_and_ranks_the_rarer_higher(store: BaseStore) -> None:
    put(store, *(chunk(f"c{i}", content="common words") for i in range(8)), chunk("r", content="rare words"))
    found = store.lexical_candidates("rare common", 3, ALL)
    assert [one.key for one in found] == [("r", 0), ("c0", 0), ("c1", 0)]
    assert found[0].score > found[1].score > 0
    assert found[0].sources == {"lexical": found[0].score}


def test_lexical_scores_are_bm25_of_the_whole_collection_whatever_the_filter(store: BaseStore) -> None:
    put(
        store,
        chunk("x", content="tea tea time", tags=("t",)),
        chunk("y", content="tea"),
        chunk("z", content="coffee beans roasted slowly", tags=("t",)),
    )
    idf = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    expected = idf * 2 * 2.5 / (2 + 1.5 * (0.25 + 0.75 * 3 / (8 / 3)))
    for filters in (ALL, Filters(tags_any=("t",))):
        found = {one.doc_id: one.score for one in store.lexical_candidates("tea", 9, filters)}
        assert found["x"] == pytest.approx(expected, abs=1e-6)
    assert list(found) == ["x"]


@pytest.mark.parametrize("query", ["", "the of", "?!", "'", "\\", "a:* & b | !c <-> d", "nowhere"])
def test_a_query_without_known_terms_finds_nothing(store: BaseStore, query: str) -> None:
    put(store, chunk("x", content="the tea of the day"))
    assert by_term(store, query) == []


FILTERS: dict[str, tuple[Filters, str]] = {
    "any": (Filters(tags_any=("red", "nowhere")), "ab"),
    "all": (Filters(tags_all=("red", "blue")), "a"),
    "number": (Filters(metadata={"n": 1}), "abf"),
    "true_is_not_1": (Filters(metadata={"n": True}), "c"),
    "null_is_not_missing": (Filters(metadata={"n": None}), "e"),
    "an_object_is_equal_as_a_whole": (Filters(metadata={"o": {"p": [1, 2], "q": 1.0}}), "b"),
    "a_part_of_an_object_is_not_equal": (Filters(metadata={"o": {"q": 1}}), ""),
    "empty_list": (Filters(metadata={"l": []}), "e"),
}


@pytest.mark.parametrize(("filters", "expected"), FILTERS.values(), ids=FILTERS)
def test_filters_are_tag_sets_and_equality_of_top_level_keys(store: BaseStore, filters: Filters, expected: str) -> None:
    put(
        store,
        chunk("a", tags=("red", "blue"), metadata={"n": 1, "o": {"p": [1, 2]}}),
        chunk("b", tags=("red",), metadata={"n": 1.0, "o": {"q": 1, "p": [1, 2]}}),
        chunk("c", tags=("blue",), metadata={"n": True, "o": {"p": [2, 1]}}),
        chunk("d", metadata={"n": "1", "l": ["x"]}),
        chunk("e", metadata={"n": None, "l": []}),
        chunk("f", metadata={"n": 1, "l": {}}),
        chunk("g", metadata={}),
    )
    keys = [(name, 0) for name in expected]
    assert by_vector(store, "tea", filters=filters) == keys
    assert by_term(store, "tea", filters=filters) == keys


def test_a_selective_filter_loses_nothing(store: BaseStore) -> None:
    chunks = [chunk(f"d{i:03d}", content=f"tea w{i % 7} w{i % 11}", tags=(f"t{i % 50}",)) for i in range(400)]
    put(store, *chunks)
    expected = [(f"d{i:03d}", 0) for i in range(7, 400, 50)]
    assert sorted(by_vector(store, "tea", 20, Filters(tags_any=("t7",)))) == expected


@pytest.mark.parametrize("k", [0, 1.5, 2**31])
def test_k_is_a_whole_number_of_at_least_one(store: BaseStore, k: Any) -> None:
    with pytest.raises(InputError, match="k="):
        by_vector(store, "tea", k)
    with pytest.raises(InputError, match="k="):
        by_term(store, "tea", k)


@pytest.mark.parametrize("shape", [(31,), (1, 32)])
def test_a_query_vector_of_another_shape_is_refused(store: BaseStore, shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="embeddings"):
        store.vector_candidates(np.ones(shape, dtype=np.float32), 1, ALL)


def test_a_document_of_2_mb_is_kept_and_found(store: BaseStore) -> None:
    content = " ".join(f"w{i:x}" for i in range(300_000))
    assert len(content) > 1_900_000
    put(store, chunk("large", content=content), chunk("many", content="tea " * 100_000), chunk("y"))
    assert store.chunks("large")[0].content == content
    assert by_term(store, "w7") == [("large", 0)]
    assert by_term(store, f"w{299_999:x}") == []  # beyond what a tsvector can hold: documented in store.lexical
    assert sorted(by_term(store, "tea")) == [("many", 0), ("y", 0)]


def test_threads_may_write_and_search_at_once(store: BaseStore) -> None:
    errors: list[Exception] = []

    def work(number: int) -> None:
        try:
            for step in range(5):
                put(store, chunk("shared", content=f"tea {number} {step}"), chunk(f"own-{number}"))
                assert len(by_term(store, "tea", 20)) >= 2
                assert len(by_vector(store, "tea", 20)) >= 2
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert store.counts() == StoreCounts(documents=7, chunks=7)
