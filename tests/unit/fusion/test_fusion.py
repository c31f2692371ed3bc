"""Fusion of ranked lists."""

import pytest

from ragtune.core.types import ScoredDocument
from ragtune.fusion.concat import ConcatFusion
from ragtune.fusion.rrf import RRFFusion


def test_first_occurrences_in_the_order_of_the_lists() -> None:
    lists = {
        "z": [ScoredDocument(id=i, score=1.0) for i in "cab"],
        "a": [ScoredDocument(id=i, score=9.0) for i in "bd"],
    }
    fused = ConcatFusion().fuse(lists)
    assert [(doc.id, doc.score) for doc in fused] == [("c", 1.0), ("a", 1 / 2), ("b", 1 / 3), ("d", 1 / 4)]
    assert fused[2].sources == {"z": 1.0, "a": 9.0}


def ranked(ids: str, score: float = 1.0) -> list[ScoredDocument]:
    return [ScoredDocument(id=doc_id, score=score, original_score=score) for doc_id in ids]


def test_scores_are_the_papers_formula() -> None:
    fused = {doc.id: doc.score for doc in RRFFusion(k=60).fuse({"one": ranked("ab"), "two": ranked("bc")})}
    assert fused == {"b": pytest.approx(1 / 62 + 1 / 61), "a": pytest.approx(1 / 61), "c": pytest.approx(1 / 62)}


def test_weights_scale_a_lists_share() -> None:
    fused = {
        doc.id: doc.score for doc in RRFFusion(weights={"one": 3.0}).fuse({"one": ranked("a"), "two": ranked("b")})
    }
    assert fused == {"a": pytest.approx(3 / 61), "b": pytest.approx(1 / 61)}


def test_the_copy_of_the_best_rank_is_kept() -> None:
    fused = RRFFusion().fuse({"one": ranked("xa", 5.0), "two": ranked("a", 7.0)})
    assert {doc.id: doc.original_score for doc in fused} == {"a": 7.0, "x": 5.0}
