from __future__ import annotations

from ragtune.core.types import ScoredDocument
from ragtune.fusion.concat import ConcatFusion


def test_first_occurrences_in_the_order_of_the_lists() -> None:
    lists = {
        "z": [ScoredDocument(id=i, score=1.0) for i in "cab"],
        "a": [ScoredDocument(id=i, score=9.0) for i in "bd"],
    }
    fused = ConcatFusion().fuse(lists)
    assert [(doc.id, doc.score) for doc in fused] == [("c", 1.0), ("a", 1 / 2), ("b", 1 / 3), ("d", 1 / 4)]
    assert fused[2].sources == {"z": 1.0, "a": 9.0}


def test_the_first_list_comes_first() -> None:
    lists = {
        "a": [ScoredDocument(id=i, score=1.0) for i in "wxyz"],
        "b": [ScoredDocument(id=i, score=1.0) for i in "zvw"],
    }
    for order in (["a", "b"], ["b", "a"]):
        fused = [doc.id for doc in ConcatFusion().fuse({key: lists[key] for key in order})]
        assert fused[: len(lists[order[0]])] == [doc.id for doc in lists[order[0]]]
