"""Rerank (rule D9): any reranker of the harness over candidates."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest

from ragtune.canonical import Candidate, rerank
from ragtune.core.errors import InputError, InvalidScoreError
from ragtune.core.interfaces import BaseReranker
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import RAGtuneContext
from ragtune.embedders.hashing import HashingEmbedder
from ragtune.rerankers.models.bi_encoder import BiEncoderReranker


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


def test_what_the_model_cannot_score_is_left_out() -> None:
    found = rerank("", [candidate("x"), candidate("y")], Scripted(lambda item: None if "x" in item.doc_id else 0.5))
    assert [one.doc_id for one in found] == ["y"]


def test_a_score_that_is_not_finite_is_refused() -> None:
    with pytest.raises(InvalidScoreError, match="nan"):
        rerank("", [candidate("x")], Scripted(lambda item: math.nan))


def test_a_candidate_that_occurs_twice_is_refused() -> None:
    with pytest.raises(InputError, match="twice"):
        rerank("", [candidate("x"), candidate("x")], Scripted(lambda item: 0.5))
