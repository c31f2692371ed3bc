from __future__ import annotations

import numpy as np
import pytest

from ragtune.core.errors import ConfigError
from ragtune.core.pool.items import ItemState, PoolItem
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.types import BatchProposal, CostObject, RemainingBudgetView, StopRecord
from ragtune.schedulers.cascade import CascadeScheduler
from ragtune.schedulers.greedy import GreedyScheduler
from ragtune.schedulers.one_shot import OneShotScheduler
from ragtune.schedulers.settled import SettledScheduler


def _pool(priorities: list[float], scores: dict[int, float] | None = None, strategy: str = "default") -> CandidatePool:
    pool = CandidatePool(
        PoolItem(doc_id=f"d{i:02d}", initial_rank=i, retrieval_score=-float(i), sources={"s": -float(i)})
        for i in range(len(priorities))
    )
    pool.apply_priorities(pool.valuation(np.array(priorities)))
    if scores:
        ids = {f"d{i:02d}": score for i, score in scores.items()}
        pool.transition(ids, ItemState.IN_FLIGHT, strategy)
        pool.update_scores(ids, strategy)
    return pool


SETTLED = _pool([0.99] * 4 + [0.001] * 20, dict.fromkeys(range(4), 0.99))
OPEN = _pool([0.5] * 24, {0: 0.9, 1: 0.1, 2: 0.8, 3: 0.05})


def test_settled_says_why_it_stops_and_goes_on_while_the_top_is_open() -> None:
    scheduler = SettledScheduler(k=4, threshold=0.2, min_docs=4)
    stop = scheduler.select_batch(SETTLED, RemainingBudgetView())
    assert isinstance(stop, StopRecord)
    assert stop.reason == "top_k_settled"
    assert stop.details["chance_of_change"] < 0.2
    assert isinstance(scheduler.select_batch(OPEN, RemainingBudgetView()), BatchProposal)


def test_settled_waits_for_min_docs() -> None:
    scheduler = SettledScheduler(k=4, threshold=0.5, min_docs=5)
    assert isinstance(scheduler.select_batch(SETTLED, RemainingBudgetView()), BatchProposal)


def test_nothing_is_settled_while_the_pool_still_grows() -> None:
    pool = _pool([0.99] * 4 + [0.001] * 20, dict.fromkeys(range(4), 0.99))
    scheduler = SettledScheduler(k=4, threshold=0.2, min_docs=4)
    assert isinstance(scheduler.select_batch(pool, RemainingBudgetView()), StopRecord)
    pool.add([PoolItem(doc_id="new", initial_rank=24, retrieval_score=0.5, sources={"graph": 0.5})])
    pool.apply_priorities(pool.valuation(np.array([0.99] * 4 + [0.001] * 21)))
    assert pool.scored_since_growth == 0
    assert isinstance(scheduler.select_batch(pool, RemainingBudgetView()), BatchProposal)
    later = {f"d{i:02d}": 0.001 for i in range(4, 8)}
    pool.transition(later, ItemState.IN_FLIGHT)
    pool.update_scores(later, "default")
    assert pool.scored_since_growth == 4
    assert isinstance(scheduler.select_batch(pool, RemainingBudgetView()), StopRecord)


def test_cascade_sends_likely_winners_to_the_stronger_strategy_and_the_rest_to_the_default() -> None:
    view = RemainingBudgetView(strategies=("default", "llm"))
    scheduler = CascadeScheduler({"llm": 3}, k=4, batch_size=2, min_docs=2)
    winners = _pool([0.99] * 4 + [0.01] * 10, {0: 0.99, 13: 0.01})
    losers = _pool([0.99] * 4 + [0.01] * 10, dict.fromkeys(range(4), 0.99))
    first = scheduler.select_batch(winners, view)
    assert isinstance(first, BatchProposal)
    assert (first.strategy, first.doc_ids) == ("llm", ["d01", "d02"])
    second = scheduler.select_batch(losers, view)
    assert isinstance(second, BatchProposal)
    assert second.strategy == "default"


def test_cascade_keeps_the_stronger_strategys_limit_and_the_budget() -> None:
    view = RemainingBudgetView(strategies=("default", "llm"))
    scheduler = CascadeScheduler({"llm": 3}, k=8, batch_size=2, min_docs=0)
    two_used = _pool([0.99] * 8 + [0.01] * 6, {0: 0.99, 1: 0.99}, strategy="llm")
    proposal = scheduler.select_batch(two_used, view)
    assert isinstance(proposal, BatchProposal)
    assert (proposal.strategy, len(proposal.doc_ids)) == ("llm", 1)
    three_used = _pool([0.99] * 8 + [0.01] * 6, {0: 0.99, 1: 0.99, 2: 0.99}, strategy="llm")
    proposal = scheduler.select_batch(three_used, view)
    assert isinstance(proposal, BatchProposal)
    assert proposal.strategy == "default"

    def llm_too_dear(doc_ids: list[str], strategy: str) -> CostObject:
        return CostObject(docs=len(doc_ids), calls=1, usd=5.0 if strategy == "llm" else 0.0)

    poor = RemainingBudgetView(strategies=("default", "llm"), remaining_usd=1.0, pricer=llm_too_dear)
    proposal = scheduler.select_batch(two_used, poor)
    assert isinstance(proposal, BatchProposal)
    assert proposal.strategy == "default"


def test_cascade_refuses_a_strategy_that_nobody_registered() -> None:
    with pytest.raises(ConfigError, match="names llm: registered strategies are default"):
        CascadeScheduler({"llm": 3}).select_batch(OPEN, RemainingBudgetView())


def test_one_shot_fires_once() -> None:
    fresh = _pool([0.5] * 5)
    proposal = OneShotScheduler(top_n=3).select_batch(fresh, RemainingBudgetView())
    assert isinstance(proposal, BatchProposal)
    assert proposal.doc_ids == ["d00", "d01", "d02"]
    fresh.transition(["d03"], ItemState.DROPPED)
    assert OneShotScheduler(top_n=3).select_batch(fresh, RemainingBudgetView()) == proposal, "nothing was sent yet"
    stop = OneShotScheduler(top_n=3).select_batch(OPEN, RemainingBudgetView())
    assert isinstance(stop, StopRecord)
    assert stop.reason == "one_shot_done"


def test_a_batch_shrinks_to_what_the_budget_affords_in_any_unit() -> None:
    def charge(doc_ids: list[str], strategy: str) -> CostObject:
        return CostObject(docs=len(doc_ids), calls=1, tokens=10 * len(doc_ids), latency_ms=5.0 * len(doc_ids))

    fresh = _pool([0.5] * 9)
    for view, expected in (
        (RemainingBudgetView(remaining_rerank_docs=3, pricer=charge), 3),
        (RemainingBudgetView(remaining_tokens=45, pricer=charge), 4),
        (RemainingBudgetView(remaining_tokens=45, assembly_token_buffer=20, pricer=charge), 2),
        (RemainingBudgetView(remaining_latency_ms=11.0, pricer=charge), 2),
    ):
        proposal = GreedyScheduler(batch_size=8).select_batch(fresh, view)
        assert isinstance(proposal, BatchProposal)
        assert len(proposal.doc_ids) == expected
    nothing = GreedyScheduler(batch_size=8).select_batch(fresh, RemainingBudgetView(remaining_tokens=9, pricer=charge))
    assert isinstance(nothing, StopRecord)
    assert nothing.reason == "budget_exhausted"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GreedyScheduler(batch_size=0), "batch_size=0"),
        (lambda: OneShotScheduler(top_n=-1), "top_n=-1"),
        (lambda: SettledScheduler(k=0), "k=0"),
        (lambda: SettledScheduler(threshold=0.6), "threshold=0.6"),
        (lambda: SettledScheduler(min_docs=-1), "min_docs=-1"),
        (lambda: CascadeScheduler({"llm": -1}), "limits.llm=-1"),
        (lambda: CascadeScheduler({}, escalate_above=1.5), "escalate_above=1.5"),
    ],
)
def test_bad_arguments_are_quoted(make, message) -> None:
    with pytest.raises(ConfigError, match=message):
        make()
