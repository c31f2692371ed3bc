"""Index and retrieve (rules D1, D6 to D11 and D16) over the reference store."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragtune.canonical import Chunk, Filters, RetrievalPlan, index, retrieve
from ragtune.canonical.store.base import BaseStore
from ragtune.canonical.store.memory import MemoryDatabase
from ragtune.core.errors import InputError
from ragtune.embedders.hashing import HashingEmbedder

TEXTS = {
    "green": "green tea from the hills of Shizuoka",
    "black": "black tea from Assam, strong and malty",
    "coffee": "roasted coffee beans",
    "time": "tea time at four",
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGTUNE_CACHE", str(tmp_path))


@pytest.fixture
def store() -> BaseStore:
    return MemoryDatabase().open("tea", HashingEmbedder(dims=512), create=True)


def chunks() -> list[Chunk]:
    return [
        Chunk(doc_id=doc_id, chunk_index=0, content=text, tags=("drink",) if doc_id != "time" else ())
        for doc_id, text in TEXTS.items()
    ]


def test_indexing_counts_what_it_did_and_names_the_storage_keys(store: BaseStore) -> None:
    done = index(chunks(), store)
    assert done == {
        "collection": "tea",
        "documents": 4,
        "inserted": 4,
        "updated": 0,
        "unchanged": 0,
        "deleted": 0,
        "keys": [[doc_id, 0] for doc_id in TEXTS],
    }
    again = index(chunks(), store)
    assert (again["inserted"], again["unchanged"], again["keys"]) == (0, 4, done["keys"])


def test_the_default_is_a_vector_search_for_twelve(store: BaseStore) -> None:
    index([Chunk(doc_id=f"d{i:02d}", chunk_index=0, content="tea") for i in range(20)], store)
    found = retrieve("tea", None, store)
    assert [candidate.doc_id for candidate in found] == [f"d{i:02d}" for i in range(12)]
    assert set(found[0].sources) == {"vector"}


@pytest.mark.parametrize("mode", ["vector", "lexical"])
def test_of_one_list_more_may_be_asked_for_than_a_pool_holds(store: BaseStore, mode: str) -> None:
    index([Chunk(doc_id=f"d{i:02d}", chunk_index=0, content="tea") for i in range(70)], store)
    plan = RetrievalPlan.model_validate({"mode": mode, "k": 60})
    assert (plan.candidate_pool, len(retrieve("tea", plan, store))) == (60, 60)
    with pytest.raises(ValueError, match="k=60: allowed is at most candidate_pool=50"):
        RetrievalPlan(mode="hybrid", k=60)


def test_hybrid_fuses_both_lists_and_keeps_their_scores(store: BaseStore) -> None:
    index(chunks(), store)
    found = retrieve("green tea", RetrievalPlan(mode="hybrid", k=2), store)
    assert found[0].doc_id == "green"
    assert found[0].score == pytest.approx(2 / 61)
    assert set(found[0].sources) == {"vector", "lexical"}
    (by_vector,) = retrieve("green tea", RetrievalPlan(mode="vector", k=1), store)
    assert found[0].sources["vector"] == by_vector.score
    assert len(found) == 2


def test_the_pool_of_each_list_is_fused_before_the_cut(store: BaseStore) -> None:
    index(chunks(), store)
    small = retrieve("tea", RetrievalPlan(mode="hybrid", k=1, candidate_pool=1, rrf_k=1), store)
    large = retrieve("tea", RetrievalPlan(mode="hybrid", k=1, candidate_pool=50, rrf_k=1), store)
    assert small[0].doc_id == large[0].doc_id == "time"
    assert len(retrieve("tea", RetrievalPlan(mode="hybrid", k=12), store)) >= 3


@pytest.mark.parametrize("mode", ["vector", "lexical", "hybrid"])
def test_filters_hold_in_every_mode(store: BaseStore, mode: str) -> None:
    index(chunks(), store)
    plan = RetrievalPlan.model_validate({"mode": mode, "filters": Filters(tags_all=("drink",))})
    assert "time" not in [candidate.doc_id for candidate in retrieve("tea time", plan, store)]


@pytest.mark.parametrize("query", ["a\x00b", "\ud800"])
def test_a_query_that_is_no_text_is_refused(store: BaseStore, query: str) -> None:
    with pytest.raises(InputError, match="query"):
        retrieve(query, None, store)
