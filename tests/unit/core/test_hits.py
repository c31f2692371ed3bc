"""What a first stage found as columns makes the pool that the same documents make as objects."""

import pickle
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtune.core.errors import InvalidScoreError
from ragtune.core.hits import Facts, Hits, checked_documents
from ragtune.core.pool.columns import PoolColumns
from ragtune.core.rounds import aggregate
from ragtune.core.types import ReformulationResult
from ragtune.data.corpus import Corpus, Document

FACTS = [Facts(f"d{i}", f"text {i} ü", {"title": "t"} if i % 2 else {}, token_count=i) for i in range(6)]


def hits(scores, source=None, facts=FACTS):
    facts = facts[: len(scores)]
    return Hits([fact.id for fact in facts], scores, facts, source)


def pool_of(candidates, round_name="original"):
    rounds = [ReformulationResult.model_construct(strategy=round_name, candidates=candidates)]
    return aggregate(rounds)


@given(st.lists(st.floats(-1e6, 1e6), max_size=6), st.sampled_from([None, "bm25", "graph"]))
def test_a_pool_of_hits_is_the_pool_of_their_documents(scores, source):
    found = hits(scores, source)
    assert checked_documents(found) is found
    pool, expected = pool_of(found), pool_of(list(found))
    assert list(pool) == list(expected)
    assert pool.doc_ids == expected.doc_ids
    for name in PoolColumns._fields:
        np.testing.assert_array_equal(getattr(pool.columns(), name), getattr(expected.columns(), name))
    for column in fields(pool.roster):
        if column.name not in ("items", "tokens"):
            np.testing.assert_array_equal(getattr(pool.roster, column.name), getattr(expected.roster, column.name))
    assert pool.roster.token_counts.tolist() == expected.roster.token_counts.tolist()


@pytest.mark.parametrize("score", [float("nan"), float("inf")])
def test_hits_are_looked_at_where_they_enter(score):
    with pytest.raises(InvalidScoreError):
        checked_documents(hits([3.0, score]))


def test_hits_that_name_a_document_twice_go_the_way_of_all_documents():
    found = Hits(["d0", "d0"], [2.0, 1.0], [FACTS[0], FACTS[0]])
    assert [doc.id for doc in checked_documents(found)] == ["d0", "d0"]


def test_a_pool_of_hits_and_a_round_of_them_travel_as_others_do():
    found = hits([3.0, 2.0], "bm25")
    assert list(pickle.loads(pickle.dumps(pool_of(found)))) == list(pool_of(found))
    names = {"original_query": "q", "reformulated_query": "q"}
    listed = ReformulationResult(**names, candidates=list(found))
    assert ReformulationResult(**names, candidates=found) == listed
    held = ReformulationResult.model_construct(**names, strategy="identity", candidates=found)
    assert held.model_dump_json() == listed.model_dump_json()


def test_a_corpus_with_a_text_that_cannot_be_written_down_is_mended_at_the_door():
    found = Corpus([Document(id="d0", text="half \ud800")]).hits(["d0"], [1.0])
    assert [doc.content for doc in checked_documents(found)] == ["half ?"]
