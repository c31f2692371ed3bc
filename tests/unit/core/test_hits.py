"""What a first stage found as columns makes the pool that the same documents make as objects."""

import pickle
from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtune import CostBudget, ScoredDocument
from ragtune.core.errors import InvalidScoreError
from ragtune.core.hits import Facts, Hits, checked_documents
from ragtune.core.pool.columns import PoolColumns
from ragtune.core.rounds import aggregate
from ragtune.core.types import ReformulationResult
from ragtune.data.corpus import Corpus, Document
from ragtune.schedulers.greedy import GreedyScheduler

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
        if column.name != "items":
            np.testing.assert_array_equal(getattr(pool.roster, column.name), getattr(expected.roster, column.name))


@pytest.mark.parametrize("counts", [[1], [], [1, -2], [1, 2.5], [1, "2"], [5, 5]])
def test_token_counts_that_are_not_those_of_the_facts_are_not_taken(counts):
    found = Hits(["d1", "d2"], [2.0, 1.0], FACTS[1:3], token_counts=counts)
    assert pool_of(checked_documents(found)).roster.token_counts.tolist() == [1, 2]
    assert checked_documents(Hits(["d1", "d2"], [2.0, 1.0], FACTS[1:3], token_counts=[1, 2])).is_sound


@pytest.mark.parametrize("score", [float("nan"), float("inf")])
def test_hits_are_looked_at_where_they_enter(score):
    with pytest.raises(InvalidScoreError):
        checked_documents(hits([3.0, score]))


def test_hits_that_name_a_document_twice_go_the_way_of_all_documents():
    found = Hits(["d0", "d0"], [2.0, 1.0], [FACTS[0], FACTS[0]])
    assert [doc.id for doc in checked_documents(found)] == ["d0", "d0"]


def test_a_text_that_cannot_be_written_down_is_mended():
    broken = replace(FACTS[0], content="half \ud800")
    assert [doc.content for doc in checked_documents(hits([1.0], facts=[broken]))] == ["half ?"]


def test_hits_read_as_a_list_of_documents():
    found = hits([3.0, 2.0, 1.0], "bm25")
    assert found == list(found)
    assert list(found) == found
    assert found[:2] == list(found)[:2]
    assert found[-1].sources == {"bm25": 1.0}


def test_a_pool_that_grew_by_hits_is_the_one_that_grew_by_their_documents(fakes):
    """Twice, so that items of three origins are made late."""
    found = hits([0.5, 0.4, 0.3, 0.2, 0.1, 0.05], "graph", FACTS)
    outputs = []
    for kind in (lambda hits: hits, list):
        retrieved = [ScoredDocument(id=f"r{i}", score=9.0 - i, content="x") for i in range(4)]
        outputs.append(
            fakes.controller(
                documents=retrieved,
                expander=fakes.Expander(lambda pool, limit, kind=kind: kind(found[len(pool) - 4 : len(pool) - 1])),
                scheduler=GreedyScheduler(batch_size=2),
                budget=CostBudget.unlimited(),
            ).run("q", query_id="q")
        )
    mine, expected = outputs
    assert len(mine.trace.find("expand")) == 2
    assert [(e.action, e.details) for e in mine.trace.events] == [(e.action, e.details) for e in expected.trace.events]
    assert mine.documents == expected.documents
    assert len(mine.documents) == 10


@pytest.mark.parametrize(
    "odd",
    [
        Hits(["d0"], [1.0], FACTS[:2]),
        Hits(["d0", "d1"], [1.0], FACTS[:2]),
        Hits(["d1", "d0"], [2.0, 1.0], FACTS[:2]),
        Hits(["d0"], [1.0], [replace(FACTS[0], metadata=None)]),
        Hits(["d0"], [1.0], [replace(FACTS[0], token_count=1.5)]),
        Hits(["d0"], [1.0], [vars(ScoredDocument(id="d0", score=1.0))]),
        Hits(["d0"], [1], FACTS[:1]),
        Hits(["d0"], [1.0], FACTS[:1], source="half \ud800"),
    ],
)
def test_columns_that_do_not_belong_together_are_no_columns(odd):
    assert not odd.is_sound


def test_a_pool_of_hits_and_a_round_of_them_travel_as_others_do():
    found = hits([3.0, 2.0], "bm25")
    assert list(pickle.loads(pickle.dumps(pool_of(found)))) == list(pool_of(found))
    names = {"original_query": "q", "reformulated_query": "q"}
    listed = ReformulationResult(**names, candidates=list(found))
    assert ReformulationResult(**names, candidates=found) == listed
    held = ReformulationResult.model_construct(**names, strategy="identity", candidates=found)
    assert held.model_dump_json() == listed.model_dump_json()


def test_a_corpus_names_the_fields_of_a_document_in_their_order():
    document = Corpus([Document(id="a", text="tea")]).scored("a", 1.0)
    assert document.model_dump_json() == ScoredDocument(**document.model_dump()).model_dump_json()


def test_what_a_corpus_knows_of_a_document_has_been_looked_at_and_stays_as_it_is():
    found = Corpus([Document(id="d0", text="text")]).hits(["d0"], [1.0])
    (known,) = found.facts
    with pytest.raises(FrozenInstanceError):
        known.content = 5
    assert pickle.loads(pickle.dumps(found)).is_sound
    assert not replace(known, token_count=-1).is_sound


def test_what_a_corpus_vouches_for_stays_as_it_is_whatever_becomes_of_the_list_of_ids():
    ids = ["d0", "d1"]
    found = Corpus(Document(id=doc_id, text=doc_id) for doc_id in ids).hits(ids, [2.0, 1.0])
    ids.reverse()
    assert found.is_sound
    assert list(found.doc_ids) == [doc.content for doc in found] == ["d0", "d1"]


@pytest.mark.parametrize(("doc_id", "score"), [("d0", float("nan")), ("d1", 1.0)])
def test_facts_that_are_sound_vouch_for_nothing_else(doc_id, score):
    assert Hits(["d0"], [1.0], FACTS[:1]).is_sound
    assert not Hits([doc_id], [score], FACTS[:1]).is_sound


def test_a_corpus_with_a_text_that_cannot_be_written_down_is_mended_at_the_door():
    found = Corpus([Document(id="d0", text="half \ud800")]).hits(["d0"], [1.0])
    assert [doc.content for doc in checked_documents(found)] == ["half ?"]
