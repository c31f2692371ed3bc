"""What every fusion promises (``BaseFusion``)."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtune.core.interfaces import BaseFusion
from ragtune.core.types import ScoredDocument
from ragtune.fusion.concat import ConcatFusion
from ragtune.fusion.rrf import RRFFusion

FUSIONS: dict[str, BaseFusion] = {
    "concat": ConcatFusion(),
    "rrf": RRFFusion(),
    "rrf_weighted": RRFFusion(k=1, weights={"a": 2.0, "b": 0.5}),
    "rrf_one_list_ignored": RRFFusion(weights={"a": 0.0}),
}

ORDER_INVARIANT = {"rrf", "rrf_weighted", "rrf_one_list_ignored"}
"""Fusions for which the order of the lists means nothing."""


def ranked(ids: str, scale: float = 1.0) -> list[ScoredDocument]:
    return [
        ScoredDocument(id=doc_id, content=f"text {doc_id}", score=scale / rank, original_score=scale / rank)
        for rank, doc_id in enumerate(ids, start=1)
    ]


LISTS = {"a": ranked("wxyz", 10.0), "b": ranked("zvw"), "c": ranked("u", -1.0), "none": []}

rankings = st.lists(st.sampled_from("pqrstuvwxyz"), unique=True).map("".join)


@pytest.fixture(params=FUSIONS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("fusion", FUSIONS.values(), ids=FUSIONS)
@given(lists=st.dictionaries(st.sampled_from("abc"), rankings))
def test_keeps_every_document_once_best_first(fusion: BaseFusion, lists: dict[str, str]) -> None:
    fused = fusion.fuse({name: ranked(ids) for name, ids in lists.items()})
    ids = [doc.id for doc in fused]
    scores = [doc.score for doc in fused]
    assert sorted(ids) == sorted(set("".join(lists.values())))
    assert scores == sorted(scores, reverse=True)
    assert all(math.isfinite(score) for score in scores)


def test_provenance_names_every_list_with_the_score_there(name: str) -> None:
    for doc in FUSIONS[name].fuse(LISTS):
        held = {source: d.score for source, docs in LISTS.items() for d in docs if d.id == doc.id}
        assert doc.sources == held


def test_the_fused_score_is_marked_as_such(name: str) -> None:
    for doc in FUSIONS[name].fuse(LISTS):
        assert doc.fusion_score == doc.score
        assert doc.content == f"text {doc.id}"


def test_equal_scores_are_ordered_by_document_id(name: str) -> None:
    fused = [(-doc.score, doc.id) for doc in FUSIONS[name].fuse({"b": ranked("zx"), "c": ranked("yw")})]
    assert fused == sorted(fused)


@pytest.mark.parametrize("name", sorted(ORDER_INVARIANT))
def test_the_order_of_the_lists_means_nothing(name: str) -> None:
    expected = FUSIONS[name].fuse(LISTS)
    for order in itertools.permutations(LISTS):
        assert FUSIONS[name].fuse({key: LISTS[key] for key in order}) == expected


@pytest.mark.parametrize("name", sorted(set(FUSIONS) - ORDER_INVARIANT))
def test_the_first_list_comes_first(name: str) -> None:
    for order in itertools.permutations(["a", "b"]):
        fused = [doc.id for doc in FUSIONS[name].fuse({key: LISTS[key] for key in order})]
        assert fused[: len(LISTS[order[0]])] == [doc.id for doc in LISTS[order[0]]]


def test_one_list_keeps_its_order(name: str) -> None:
    assert [doc.id for doc in FUSIONS[name].fuse({"c": ranked("zaybx")})] == list("zaybx")


def test_a_list_that_repeats_a_document_counts_its_best_rank(name: str) -> None:
    fusion = FUSIONS[name]
    assert [doc.id for doc in fusion.fuse({"c": ranked("zyz")})] == ["z", "y"]


@pytest.mark.parametrize("lists", [{}, {"a": []}, {"a": [], "b": []}])
def test_nothing_in_nothing_out(name: str, lists: dict[str, list[ScoredDocument]]) -> None:
    assert FUSIONS[name].fuse(lists) == []
