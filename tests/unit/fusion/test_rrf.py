from __future__ import annotations

import math

import pytest

from ragtune.core.errors import ConfigError
from ragtune.core.types import ScoredDocument
from ragtune.fusion.rrf import RRFFusion


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


@pytest.mark.parametrize("bad", [-1.0, math.nan])
def test_bad_settings_are_refused_by_quoting_them(bad: float) -> None:
    with pytest.raises(ConfigError, match=f"rrf k={bad!r}: allowed"):
        RRFFusion(k=bad)
    with pytest.raises(ConfigError, match="rrf weight of bm25="):
        RRFFusion(weights={"bm25": bad})
