"""Final orders, their ties, and the rankings of all steps at once."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtune.core.output import HistoryStep, rankings_of
from ragtune.core.pool.columns import CANDIDATE, DROPPED, RERANKED, PoolColumns
from ragtune.core.pool.items import ItemState, PoolItem, tie_key
from ragtune.core.pool.ordering import Ordering
from ragtune.core.pool.pool import CandidatePool

few = st.sampled_from([0.0, -0.0, 0.25, 0.5, 1.0])
signed = st.sampled_from([-1.0, 0.0, 0.5, 1.0])


@st.composite
def pools(draw) -> CandidatePool:
    """Pools full of ties, in any mix of states, ids in no order."""
    n = draw(st.integers(0, 14))
    ids = draw(st.permutations([f"d{i:02d}" for i in range(n)]))
    items = [
        PoolItem(
            doc_id=doc_id,
            initial_rank=draw(st.integers(0, 3)),
            sources=draw(st.dictionaries(st.sampled_from(["original", "rewrite_0"]), signed)),
        )
        for doc_id in ids
    ]
    joining = draw(st.integers(0, n))
    pool = CandidatePool(items[joining:])
    mean = np.array(draw(st.lists(few, min_size=len(pool), max_size=len(pool))))
    posterior = draw(st.none() | st.lists(signed, min_size=len(pool), max_size=len(pool)))
    pool.apply_priorities(pool.valuation(mean, posterior=None if posterior is None else np.array(posterior)))
    pool.add(replace(item, initial_rank=item.initial_rank + 4) for item in items[:joining])  # without a posterior
    states = {doc_id: draw(st.sampled_from(list(ItemState))) for doc_id in ids}
    pool.transition([doc_id for doc_id in ids if states[doc_id] is ItemState.DROPPED], ItemState.DROPPED)
    sent = [doc_id for doc_id in ids if states[doc_id] in (ItemState.IN_FLIGHT, ItemState.RERANKED)]
    pool.transition(sent, ItemState.IN_FLIGHT)
    pool.update_scores({doc_id: draw(few) for doc_id in sent if states[doc_id] is ItemState.RERANKED}, "x")
    return pool


def naive_order(ordering: Ordering, items: list[PoolItem]) -> list[str]:
    def key(item: PoolItem):
        if ordering is Ordering.FINAL_SCORE:
            return 0, -item.final_score(), item.initial_rank, item.doc_id
        value = item.posterior if by_posterior else item.reranker_score
        return (1, 0.0, *tie_key(item)) if value is None else (0, -value, *tie_key(item))

    by_posterior = ordering is Ordering.POSTERIOR and any(it.posterior is not None for it in items)
    return [it.doc_id for it in sorted(items, key=key)]


def some_lost(items: list[PoolItem]) -> bool:
    return any(it.state is ItemState.DROPPED and it.reranker_score is None for it in items)


@given(pool=pools(), ordering=st.sampled_from(list(Ordering)), data=st.data())
def test_columns_items_and_a_plain_sort_agree_on_every_tie(pool, ordering, data):
    for keeps_dropped in (True, False):
        pool.keeps_dropped = keeps_dropped
        columns = pool.columns()
        items = pool.items_at(pool.ranked) if keeps_dropped else pool.get_active_items()
        by_columns = [pool.doc_ids[i] for i in ordering.keys_at(columns).argsort()]
        by_items = ordering.ranked(data.draw(st.permutations(items)))
        assert by_columns == [it.doc_id for it, _ in by_items]
        assert by_columns == naive_order(ordering, items) or some_lost(items)
        keys = [key for _, key in by_items]
        assert keys == sorted(keys, reverse=True)


FAR_ENOUGH = st.integers(0, 10**6).map(lambda n: n / 10**6)
"""Scores with room between them: between two neighbouring floats there is none."""


@given(scores=st.lists(st.none() | FAR_ENOUGH, max_size=12, unique_by=lambda score: score or object()))
def test_a_lost_document_keeps_its_first_stage_place_where_the_rest_stands_behind(scores):
    pool = CandidatePool(PoolItem(doc_id=f"d{i:02d}", initial_rank=i) for i in range(len(scores)))
    pool.transition(pool.doc_ids, ItemState.IN_FLIGHT)
    found = dict(zip(pool.doc_ids, scores, strict=True))
    pool.update_scores({doc_id: score for doc_id, score in found.items() if score is not None}, "x")
    pool.transition([doc_id for doc_id, score in found.items() if score is None], ItemState.DROPPED)
    order = Ordering.RERANKED_FIRST.keys(pool).argsort().tolist()
    assert [scores[i] for i in order if scores[i] is not None] == sorted(
        (score for score in scores if score is not None), reverse=True
    )
    if len({score for score in scores if score is not None}) == sum(score is not None for score in scores):
        assert all(order[i] == i for i, score in enumerate(scores) if score is None)


@pytest.mark.parametrize(
    ("ordering", "is_fused"), [(Ordering.FINAL_SCORE, True), (Ordering.FINAL_SCORE, False), (Ordering.POSTERIOR, True)]
)
def test_a_document_whose_score_was_lost_is_ordered_by_its_estimate_like_one_that_was_never_sent(ordering, is_fused):
    orders = []
    for is_lost in (True, False):
        pool = CandidatePool(PoolItem(doc_id=f"d{i}", initial_rank=i, sources={"original": 9.0 - i}) for i in range(6))
        pool.transition(["d0", "d3", "d4"] if is_lost else ["d3", "d4"], ItemState.IN_FLIGHT)
        pool.update_scores({"d3": 0.3, "d4": 0.7}, "x")
        if is_lost:
            pool.transition(["d0"], ItemState.DROPPED)
        values = np.array([0.5, 0.4, 0.9, 0.1, 0.1, 0.2])
        pool.apply_priorities(pool.valuation(values, posterior=values if is_fused else None))
        assert (pool["d0"].state is ItemState.DROPPED) is is_lost
        orders.append([pool.doc_ids[i] for i in ordering.keys(pool).argsort()])
    assert orders[0] == orders[1]
    assert orders[0].index("d0") < orders[0].index("d1") < orders[0].index("d5")


@pytest.mark.parametrize("ordering", list(Ordering))
@pytest.mark.parametrize("lost", [CANDIDATE, DROPPED])
def test_a_step_is_ranked_as_it_is_alone_also_where_a_score_was_lost(ordering: Ordering, lost: int) -> None:
    unknown, base = np.full(4, np.nan), np.array([0.9, 0.8, 0.7, 0.6])
    scores = np.array([np.nan, 0.2, np.nan, 0.9])
    states = np.array([lost, RERANKED, CANDIDATE, RERANKED], dtype=np.int8)
    before = PoolColumns(np.zeros(4, dtype=np.int8), unknown, base / 2, base, unknown)
    steps = [
        HistoryStep((), ("a", "b", "c", "d"), ordering, columns)
        for columns in (before, PoolColumns(states, scores, base / 2, base, unknown))
    ]
    assert [order.tolist() for order in rankings_of(steps)] == [step.keys.argsort().tolist() for step in steps]
