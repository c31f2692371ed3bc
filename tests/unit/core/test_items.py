from __future__ import annotations

import pytest

from ragtune import ScoredDocument
from ragtune.core.pool import columns
from ragtune.core.pool.items import TRANSITIONS, ItemState, PoolItem


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"reranker_score": 0.2, "priority_value": 0.9, "sources": {"original": 5.0}}, 0.2),
        ({"reranker_score": 0.0, "priority_value": 0.9}, 0.0),
        ({"priority_value": 0.9, "sources": {"original": 5.0}}, 0.9),
        ({"priority_value": 0.0, "sources": {"original": 5.0, "rewrite_0": 7.0}}, 7.0),
        ({"priority_value": -0.5, "sources": {"original": -3.0}}, -3.0),
        ({}, 0.0),
    ],
)
def test_final_score_is_reranker_then_positive_priority_then_best_source(fields, expected):
    assert PoolItem(doc_id="d", **fields).final_score() == expected


def test_every_state_has_its_transitions():
    assert set(TRANSITIONS) == set(ItemState)


def test_state_codes_are_the_states_in_order():
    codes = [columns.CANDIDATE, columns.IN_FLIGHT, columns.RERANKED, columns.DROPPED]
    assert [list(ItemState)[code].name for code in codes] == ["CANDIDATE", "IN_FLIGHT", "RERANKED", "DROPPED"]


def test_a_document_becomes_a_candidate_with_all_that_it_carries():
    doc = ScoredDocument(
        id="d", content="c", metadata={"title": "t"}, score=2.0, fusion_score=0.5, token_count=7, sources={"bm25": 2.0}
    )
    item = PoolItem.from_document(doc, 3, {"bm25": 2.0})
    assert item == PoolItem(
        doc_id="d",
        content="c",
        metadata={"title": "t"},
        sources={"bm25": 2.0},
        initial_rank=3,
        retrieval_score=2.0,
        fusion_score=0.5,
        token_count=7,
    )
    item.metadata["title"] = "changed"
    assert doc.metadata == {"title": "t"}
