"""Index, retrieve, fuse and rerank (rules D1, D6 to D11 and D16) over the reference store."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from time import sleep
from typing import Any

import pytest

from ragtune.canonical import (
    Candidate,
    Chunk,
    ChunkPolicy,
    Filters,
    RetrievalPlan,
    SourceDocument,
    fuse,
    index,
    rerank,
    retrieve,
)
from ragtune.canonical.analyzers import check_same, describe
from ragtune.canonical.service import LimitExceededError, RagService
from ragtune.canonical.store.base import BaseStore
from ragtune.canonical.store.memory import MemoryDatabase
from ragtune.core.errors import CollectionMismatchError, ConfigError, InputError, InvalidScoreError
from ragtune.core.interfaces import BaseReranker
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import RAGtuneContext
from ragtune.embedders.hashing import HashingEmbedder
from ragtune.rerankers.models.bi_encoder import BiEncoderReranker

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


def candidates(*keys: tuple[str, int], source: str = "") -> list[Candidate]:
    return [
        Candidate(doc_id=doc_id, chunk_index=place, content="", score=score, sources={source: score} if source else {})
        for score, (doc_id, place) in zip(range(len(keys), 0, -1), keys, strict=True)
    ]


def keys(found: list[Candidate]) -> list[tuple[str, int]]:
    return [candidate.key for candidate in found]


def test_reciprocal_rank_fusion_sums_over_lists_with_k_of_60() -> None:
    found = fuse({"vector": candidates(("x", 0), ("y", 0)), "lexical": candidates(("y", 0), ("z", 0))})
    assert keys(found) == [("y", 0), ("x", 0), ("z", 0)]
    assert [candidate.score for candidate in found] == pytest.approx([1 / 61 + 1 / 62, 1 / 61, 1 / 62], abs=1e-15)


def test_ties_are_ordered_by_document_then_by_number_of_the_chunk() -> None:
    tied = [[key] for key in [("b", 0), ("a", 10), ("a", 9), ("a!", 0), ("A", 3)]]
    assert keys(fuse([candidates(*one) for one in tied])) == [("A", 3), ("a", 9), ("a", 10), ("a!", 0), ("b", 0)]


def test_the_order_of_lists_does_not_matter_to_rrf() -> None:
    lists = {"a": candidates(("x", 0), ("y", 1)), "b": candidates(("y", 1), ("z", 0))}
    assert fuse(lists) == fuse(dict(reversed(lists.items())))


def test_sources_of_all_copies_are_joined_and_named_lists_add_theirs() -> None:
    lists = [candidates(("x", 0), source="vector"), candidates(("x", 0), source="lexical")]
    assert fuse(lists)[0].sources == {"vector": 1.0, "lexical": 1.0}
    assert fuse({"one": lists[0], "two": lists[1]})[0].sources == {"vector": 1, "lexical": 1, "one": 1, "two": 1}
    assert fuse([candidates(("x", 0))])[0].sources == {}


def test_params_are_the_fusions_own() -> None:
    lists = {"a": candidates(("x", 0)), "b": candidates(("y", 0))}
    found = fuse(lists, params={"k": 0, "weights": {"b": 2.0}})
    assert [(candidate.key, candidate.score) for candidate in found] == [(("y", 0), 2.0), (("x", 0), 1.0)]


def test_scores_are_scaled_to_their_list_and_weighted() -> None:
    lists = {"vector": candidates(("x", 0), ("y", 0), ("z", 0)), "lexical": candidates(("y", 0), ("w", 0))}
    found = fuse(lists, "scores", {"weights": {"vector": 3.0}})
    assert {candidate.doc_id: candidate.score for candidate in found} == {"x": 0.75, "y": 0.625, "w": 0, "z": 0}
    assert keys(found) == [("x", 0), ("y", 0), ("w", 0), ("z", 0)]


def test_a_write_that_would_take_too_long_to_embed_is_refused_after_the_first_texts() -> None:
    class Slow(HashingEmbedder):
        texts = 0

        def embed(self, texts: Any) -> Any:
            self.texts += len(texts)
            sleep(0.001 * len(texts))
            return super().embed(texts)

    slow = Slow(dims=8)
    document = SourceDocument(doc_id="d", content="\n\n".join(f"Paragraph {number}." for number in range(1000)))
    with RagService(MemoryDatabase(), {"slow": slow}, cache_dir=None, timeout_s=0.5) as service:
        service.create_collection("docs")
        with pytest.raises(LimitExceededError, match=r"chunks would take about .* send at most \d+ at once"):
            service.ingest("docs", [document], ChunkPolicy(method="paragraphs", max_tokens=4))
        assert service.on("docs", lambda store: store.counts().chunks) == 0
    assert slow.texts <= 20


def test_concatenation_keeps_the_order_of_the_lists() -> None:
    lists = [candidates(("z", 0), ("y", 0)), candidates(("y", 0), ("a", 0))]
    assert keys(fuse(lists, "concat")) == [("z", 0), ("y", 0), ("a", 0)]


@pytest.mark.parametrize(
    ("method", "params", "message"),
    [
        ("max", None, "max"),
        ("rrf", {"depth": 3}, "depth"),
        ("rrf", {"k": -1}, "k=-1"),
        ("rrf", {"weights": {"b": 1.0, "vectr": 2.0}}, "weights.*'vectr'.*a, b"),
        ("concat", {"k": 60}, "fuse concat params='k': allowed are none"),
    ],
)
def test_what_a_fusion_does_not_know_is_refused(method: str, params: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        fuse({"a": [], "b": []}, method, params)


class Scripted(BaseReranker):
    def __init__(self, score: Callable[[PoolItem], float | None]) -> None:
        self._score = score

    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        scores = {item.doc_id: self._score(item) for item in items}
        return {doc_id: score for doc_id, score in scores.items() if score is not None}


def candidate(doc_id: str, place: int = 0, content: str = "", score: float = 1.0) -> Candidate:
    return Candidate(
        doc_id=doc_id, chunk_index=place, content=content, score=score, tags=("t",), sources={"vector": score}
    )


def test_no_model_changes_nothing() -> None:
    given = [candidate("b", score=0.1), candidate("a", score=0.9)]
    assert rerank("tea", given) == given


def test_a_model_of_the_harness_orders_by_its_score_and_the_rest_is_kept() -> None:
    model = BiEncoderReranker(HashingEmbedder(dims=256), cache_dir=None)
    given = [candidate("x", content="coffee"), candidate("y", 3, content="green tea")]
    found = rerank("green tea", given, model)
    assert [(one.key, one.score) for one in found] == [(("y", 3), 1.0), (("x", 0), 0.5)]
    assert found[0].sources == {"vector": 1.0}
    assert found[0].tags == ("t",)


def test_ties_are_ordered_by_document_and_chunk_whatever_the_order_given() -> None:
    given = [candidate("b"), candidate("a", 10), candidate("a", 2)]
    for order in (given, given[::-1]):
        assert [one.key for one in rerank("", order, Scripted(lambda item: 0.5))] == [("a", 2), ("a", 10), ("b", 0)]


def test_a_score_that_is_not_finite_is_refused() -> None:
    with pytest.raises(InvalidScoreError, match="nan"):
        rerank("", [candidate("x")], Scripted(lambda item: math.nan))


def test_a_candidate_that_occurs_twice_is_refused() -> None:
    with pytest.raises(InputError, match="twice"):
        rerank("", [candidate("x"), candidate("x")], Scripted(lambda item: 0.5))


@pytest.mark.parametrize("analyzer", ["english-1 stopwords=33", "english-2 snowball=0.1"])
def test_a_collection_of_an_analysis_that_is_gone_says_what_to_do(analyzer: str) -> None:
    kept = describe("tea", HashingEmbedder(8), None).model_copy(update={"analyzer": analyzer})
    with pytest.raises(CollectionMismatchError, match=f"'tea' is analyzed by '{analyzer}'.*ingest its documents again"):
        check_same(kept, describe("tea", HashingEmbedder(8), None), None)
