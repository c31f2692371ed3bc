from __future__ import annotations

import math
import pickle
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtune.core.errors import IllegalTransitionError, InputError, InvalidScoreError, UnknownDocumentError
from ragtune.core.hits import Facts, Hits, checked_documents
from ragtune.core.pool.columns import PoolColumns
from ragtune.core.pool.items import ItemState, PoolItem, ids_of, lengths_of
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.rounds import aggregate
from ragtune.core.types import ReformulationResult
from ragtune.data.corpus import Corpus, Document

NOT_FINITE = [math.nan, math.inf, -math.inf]
ALLOWED = {
    (ItemState.CANDIDATE, ItemState.IN_FLIGHT),
    (ItemState.CANDIDATE, ItemState.DROPPED),
    (ItemState.IN_FLIGHT, ItemState.RERANKED),
    (ItemState.IN_FLIGHT, ItemState.DROPPED),
    (ItemState.RERANKED, ItemState.DROPPED),
}


def pool_in(*states: ItemState) -> CandidatePool:
    pool = CandidatePool(
        PoolItem(doc_id=f"d{i}", sources={"original": 1.0}, initial_rank=i) for i in range(len(states))
    )
    put(pool, {f"d{i}": state for i, state in enumerate(states)})
    return pool


def put(pool: CandidatePool, states: dict[str, ItemState]) -> None:
    """Move documents to these states, by the ways that there are."""
    pool.transition([doc_id for doc_id, state in states.items() if state is ItemState.DROPPED], ItemState.DROPPED)
    sent = [doc_id for doc_id, state in states.items() if state in (ItemState.IN_FLIGHT, ItemState.RERANKED)]
    if sent:
        pool.transition(sent, ItemState.IN_FLIGHT)
        pool.update_scores({doc_id: 0.5 for doc_id in sent if states[doc_id] is ItemState.RERANKED}, "x")


def states_of(pool: CandidatePool) -> list[ItemState]:
    return [item.state for item in pool]


@pytest.mark.parametrize("target", list(ItemState))
@pytest.mark.parametrize("origin", list(ItemState))
def test_transition_table_is_exactly_the_specs(origin, target):
    pool = pool_in(origin)
    if (origin, target) in ALLOWED:
        pool.transition(["d0"], target)
        assert states_of(pool) == [target]
    else:
        with pytest.raises(IllegalTransitionError, match=rf"'d0' cannot go from {origin.name} to {target.name}"):
            pool.transition(["d0"], target)
        assert states_of(pool) == [origin]


@pytest.mark.parametrize("bad", NOT_FINITE)
@pytest.mark.parametrize("column", ["mean", "acquisition", "posterior"])
def test_every_column_of_a_valuation_must_be_finite(column, bad):
    pool = pool_in(*[ItemState.CANDIDATE] * 2)
    columns = {"mean": np.array([0.5, 0.5]), column: np.array([0.5, bad])}
    with pytest.raises(InvalidScoreError, match="'d1'"):
        pool.apply_priorities(pool.valuation(**columns))
    assert pool.priorities.tolist() == [0.0, 0.0]
    assert pool.estimates.acquisition is pool.belief is None


@pytest.mark.parametrize("column", ["mean", "acquisition", "posterior"])
def test_every_column_of_a_valuation_has_one_number_a_document(column):
    pool = pool_in(*[ItemState.CANDIDATE] * 3)
    columns = {"mean": np.full(3, 0.5), column: np.full(2, 0.5)}
    with pytest.raises(InvalidScoreError, match=r"shape \(2,\)"):
        pool.apply_priorities(pool.valuation(**columns))
    assert pool.priorities.tolist() == [0.0, 0.0, 0.0]


def test_applied_estimates_do_not_follow_the_estimators_arrays():
    pool = pool_in(*[ItemState.CANDIDATE] * 2)
    mean, acquisition = np.array([0.1, 0.2]), np.array([0.3, 0.4])
    pool.apply_priorities(pool.valuation(mean, acquisition=acquisition))
    mean[:], acquisition[:] = 9.0, 9.0
    assert pool.priorities.tolist() == [0.1, 0.2]
    assert pool.estimates.acquisition.tolist() == [0.3, 0.4]


def test_a_posterior_lives_no_longer_than_the_valuation_that_gave_it():
    pool = pool_in(*[ItemState.CANDIDATE] * 2)
    for without in (pool.valuation(np.array([0.1, 0.2])), {"d0": 0.1}):
        pool.apply_priorities(pool.valuation(np.array([0.1, 0.2]), posterior=np.array([1.0, 2.0])))
        assert pool["d1"].posterior == 2.0
        pool.apply_priorities(without)
        assert pool["d1"].posterior is None


def test_a_dict_changes_only_the_documents_that_it_names():
    pool = pool_in(*[ItemState.CANDIDATE] * 2)
    pool.apply_priorities({"d0": 0.1, "d1": 0.2})
    pool.apply_priorities({"d1": 0.9})
    assert pool.priorities.tolist() == [0.1, 0.9]
    with pytest.raises(UnknownDocumentError):
        pool.apply_priorities({"stranger": 0.5})


def item(doc_id: str, rank: int, **fields) -> PoolItem:
    return PoolItem(doc_id=doc_id, initial_rank=rank, **fields)


def test_duplicate_ids_are_refused_by_name():
    with pytest.raises(InputError, match="duplicate document id 'a'"):
        CandidatePool([item("a", 0), item("a", 1)])


def test_additions_go_behind_and_move_nothing():
    pool = CandidatePool([item("a", 0), item("b", 1)])
    pool.transition(["a"], ItemState.IN_FLIGHT)
    before = {doc_id: pool.roster.index[doc_id] for doc_id in pool.doc_ids}
    pool.add([item("y", 3), item("x", 2)])
    assert pool.doc_ids == ("a", "b", "x", "y")
    assert all(pool.roster.index[doc_id] == position for doc_id, position in before.items())
    assert pool["a"].state is ItemState.IN_FLIGHT
    assert pool.top_candidates(9) == ["b", "x", "y"]


def test_a_batch_tells_ids_and_lengths_and_later_shows_its_own_moment():
    pool = pool_in(*[ItemState.CANDIDATE] * 3)
    batch = pool.get_items(["d2", "d0"])
    assert (ids_of(batch), lengths_of(batch)) == (["d2", "d0"], [pool.entries[i].token_count for i in (2, 0)])
    pool.transition(["d2"], ItemState.IN_FLIGHT)
    pool.update_scores({"d2": 0.9}, "x")
    assert [(it.state, it.reranker_score, it.reranker_strategy) for it in batch] == [
        (ItemState.CANDIDATE, None, None)
    ] * 2
    assert batch[0] is batch[0]
    assert pickle.loads(pickle.dumps(batch)) == list(batch) == batch
    assert ids_of(list(batch)) == ["d2", "d0"]


@pytest.mark.parametrize(
    "column", ["states", "priorities", "scores", "posteriors", "retrieval_scores", "base_scores", "eligible"]
)
def test_columns_cannot_be_written_from_outside(column):
    pool = pool_in(ItemState.CANDIDATE)
    with pytest.raises(ValueError, match="read-only"):
        getattr(pool, column)[0] = 1


def test_unknown_documents_are_named():
    pool = pool_in(ItemState.CANDIDATE)
    for read in (pool.__getitem__, lambda doc_id: pool.get_items(["d0", doc_id])):
        with pytest.raises(UnknownDocumentError, match="'stranger'"):
            read("stranger")


def test_batches_are_kept_in_the_order_of_scoring_failed_ones_included():
    pool = pool_in(*[ItemState.CANDIDATE] * 5)
    pool.transition(["d4"], ItemState.DROPPED)
    for strategy, doc_ids, scores in (
        ("weak", ["d3", "d1"], {"d1": 0.2}),
        ("strong", ["d0"], {}),
        ("weak", ["d2"], {}),
    ):
        pool.transition(doc_ids, ItemState.IN_FLIGHT, strategy)
        pool.update_scores(scores, strategy)
        pool.transition([doc_id for doc_id in doc_ids if doc_id not in scores], ItemState.DROPPED)
    sent = [(batch.strategy, batch.positions.tolist()) for batch in pool.batches]
    assert sent == [("weak", [3, 1]), ("strong", [0]), ("weak", [2])]
    assert np.array_equal(pool.scores[pool.batches[0].positions], [np.nan, 0.2], equal_nan=True)
    with pytest.raises(ValueError, match="read-only"):
        pool.batches[0].positions[0] = 1


def test_ids_that_a_component_sorts_in_place_do_not_move_scores():
    pool = pool_in(*[ItemState.CANDIDATE] * 3)
    pool.get_items(["d2", "d0"]).doc_ids.sort()
    assert pool.positions(["d0", "d2"]).tolist() == [0, 2]


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


def test_a_pool_of_hits_and_a_round_of_them_travel_as_others_do():
    found = hits([3.0, 2.0], "bm25")
    assert list(pickle.loads(pickle.dumps(pool_of(found)))) == list(pool_of(found))
    names = {"original_query": "q", "reformulated_query": "q"}
    listed = ReformulationResult(**names, candidates=list(found))
    assert ReformulationResult(**names, candidates=found) == listed
    held = ReformulationResult.model_construct(**names, strategy="identity", candidates=found)
    assert held.model_dump_json() == listed.model_dump_json()


def test_a_corpus_with_a_text_that_cannot_be_written_down_is_mended_at_the_door():
    found = Corpus([Document(id="d0", text="half \ud800")]).hits_at([0], [1.0])
    assert [doc.content for doc in checked_documents(found)] == ["half ?"]
