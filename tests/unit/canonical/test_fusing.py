"""Fuse (rule D8): the harness's fusions over candidates."""

from __future__ import annotations

from typing import Any

import pytest

from ragtune.canonical import Candidate, fuse
from ragtune.core.errors import ConfigError


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
        ("concat", {"k": 60}, "fuse concat: .*no arguments"),
    ],
)
def test_what_a_fusion_does_not_know_is_refused(method: str, params: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        fuse({"a": [], "b": []}, method, params)
