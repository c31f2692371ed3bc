"""What schedulers send next, and when they stop."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ragtune import CostBudget
from ragtune.core.errors import ConfigError
from ragtune.core.pool.items import ItemState, PoolItem
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.types import BatchProposal, CostObject, RemainingBudgetView, StopRecord
from ragtune.estimators.baseline import BaselineEstimator
from ragtune.estimators.comparing.blitzrank import BlitzRankEstimator
from ragtune.estimators.comparing.sliding import SlidingEstimator
from ragtune.schedulers.cascade import CascadeScheduler
from ragtune.schedulers.gate import GateScheduler
from ragtune.schedulers.greedy import GreedyScheduler
from ragtune.schedulers.one_shot import OneShotScheduler
from ragtune.schedulers.settled import SettledScheduler
from ragtune.schedulers.sliding_window import SlidingWindowScheduler
from ragtune.schedulers.windows import WindowsScheduler


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
    assert stop.reason == "top_k_settled"
    assert stop.details["chance_of_change"] < 0.2
    assert isinstance(scheduler.select_batch(OPEN, RemainingBudgetView()), BatchProposal)


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
        assert len(proposal.doc_ids) == expected
    nothing = GreedyScheduler(batch_size=8).select_batch(fresh, RemainingBudgetView(remaining_tokens=9, pricer=charge))
    assert nothing.reason == "budget_exhausted"


def test_cascade_keeps_the_stronger_strategys_limit_and_the_budget() -> None:
    view = RemainingBudgetView(strategies=("default", "llm"))
    scheduler = CascadeScheduler({"llm": 3}, k=8, batch_size=2, min_docs=0)
    two_used = _pool([0.99] * 8 + [0.01] * 6, {0: 0.99, 1: 0.99}, strategy="llm")
    proposal = scheduler.select_batch(two_used, view)
    assert (proposal.strategy, len(proposal.doc_ids)) == ("llm", 1)
    three_used = _pool([0.99] * 8 + [0.01] * 6, {0: 0.99, 1: 0.99, 2: 0.99}, strategy="llm")
    proposal = scheduler.select_batch(three_used, view)
    assert proposal.strategy == "default"

    def llm_too_dear(doc_ids: list[str], strategy: str) -> CostObject:
        return CostObject(docs=len(doc_ids), calls=1, usd=5.0 if strategy == "llm" else 0.0)

    poor = RemainingBudgetView(strategies=("default", "llm"), remaining_usd=1.0, pricer=llm_too_dear)
    proposal = scheduler.select_batch(two_used, poor)
    assert proposal.strategy == "default"


def test_cascade_refuses_a_strategy_that_nobody_registered() -> None:
    with pytest.raises(ConfigError, match="names llm: registered strategies are default"):
        CascadeScheduler({"llm": 3}).select_batch(OPEN, RemainingBudgetView())


def test_one_shot_fires_once() -> None:
    fresh = _pool([0.5] * 5)
    proposal = OneShotScheduler(top_n=3).select_batch(fresh, RemainingBudgetView())
    assert proposal.doc_ids == ["d00", "d01", "d02"]
    fresh.transition(["d03"], ItemState.DROPPED)
    assert OneShotScheduler(top_n=3).select_batch(fresh, RemainingBudgetView()) == proposal, "nothing was sent yet"
    stop = OneShotScheduler(top_n=3).select_batch(OPEN, RemainingBudgetView())
    assert stop.reason == "one_shot_done"


def sizes(output) -> list[int]:
    return [len(event.details["doc_ids"]) for event in output.trace.find("propose")]


limits = CostBudget.only


def test_a_full_window_comes_first_and_then_one_step_a_call(fakes):
    output = fakes.controller(scheduler=SlidingWindowScheduler(window=8, step=4)).run("q")
    assert sizes(output) == [8, 4, 4, 4]
    assert output.final_budget_state["rerank_calls"] == 4


def test_calls_and_documents_are_limited_by_the_budget(fakes):
    scheduler = SlidingWindowScheduler(window=8, step=4)
    assert sizes(fakes.controller(scheduler=scheduler, budget=limits(max_reranker_calls=2)).run("q")) == [8, 4]
    assert sizes(fakes.controller(scheduler=scheduler, budget=limits(max_reranker_docs=10)).run("q")) == [8, 2]
    assert sizes(fakes.controller(scheduler=scheduler, budget=limits(max_reranker_docs=5)).run("q")) == [5]


def truth(items: Any) -> dict[str, float]:
    """What documents are worth: the later they come, the more."""
    best_first = sorted(items, key=lambda item: -item.initial_rank)
    return {item.doc_id: 1 / (2 + rank) for rank, item in enumerate(best_first)}


@pytest.fixture
def controller(fakes: Any) -> Callable[..., Any]:
    def make(estimator: Any, **budget: int) -> Any:
        from ragtune.assemblers.greedy import GreedyAssembler

        return fakes.controller(
            documents=fakes.docs(30),
            estimator=estimator,
            scheduler=WindowsScheduler(5),
            reranker=fakes.Reranker(script=[truth] * 60),
            assembler=GreedyAssembler(ordering="posterior"),
            budget=CostBudget.only(**budget),
        )

    return make


def test_documents_are_compared_again_and_every_call_is_paid(controller):
    output = controller(SlidingEstimator(window=8, step=4, depth=30)).run("q")
    calls = output.trace.find("propose")
    sent = [doc_id for call in calls for doc_id in call.details["doc_ids"]]
    assert len(sent) > len(set(sent)) == 30
    assert output.final_budget_state["rerank_docs"] == len(sent)
    assert output.final_budget_state["rerank_calls"] == len(calls) == 7
    assert list(output.ranking[:4]) == ["doc_029", "doc_028", "doc_027", "doc_026"]
    assert (output.stop.reason, output.stop.source) == ("nothing_to_compare", "scheduler")


def test_a_budget_in_calls_is_hard_and_the_ranking_is_that_of_the_moment(controller):
    output = controller(BlitzRankEstimator(window=8, top_k=3), max_reranker_calls=2).run("q")
    assert output.final_budget_state["rerank_calls"] == 2
    assert output.stop.reason == "budget_exhausted"
    assert output.ranking[0] == "doc_007"


def test_a_window_is_cut_to_what_is_left_but_not_to_a_single_document(controller):
    cut = controller(BlitzRankEstimator(window=8, top_k=3), max_reranker_docs=11).run("q")
    assert [len(call.details["doc_ids"]) for call in cut.trace.find("propose")] == [8, 3]
    alone = controller(BlitzRankEstimator(window=8, top_k=3), max_reranker_docs=9).run("q")
    assert [len(call.details["doc_ids"]) for call in alone.trace.find("propose")] == [8]
    assert (alone.stop.reason, alone.stop.source) == ("budget_exhausted", "scheduler")


def test_an_estimator_without_a_wish_gets_windows_of_its_best_each_once(controller):
    output = controller(BaselineEstimator()).run("q")
    sent = [call.details["doc_ids"] for call in output.trace.find("propose")]
    assert [len(window) for window in sent] == [5] * 6
    assert [doc_id for window in sent for doc_id in window] == [f"doc_{i:03d}" for i in range(30)]


def _found(*sources: list[float]) -> CandidatePool:
    return CandidatePool(
        PoolItem(f"d{i:02d}", i, retrieval_score=scores[0], sources={f"s{j}": s for j, s in enumerate(scores)})
        for i, scores in enumerate(zip(*sources, strict=True))
    )


def _gate(**options: Any) -> GateScheduler:
    return GateScheduler(OneShotScheduler(top_n=3), k=2, **{"margin": 2.0, **options})


FLAT, STEEP = [3.0, 2.9, 2.8, 2.0, 0.0], [9.0, 4.0, 1.0, 0.5, 0.0]


def test_the_gate_closes_where_the_leaders_stand_out() -> None:
    assert isinstance(_gate().select_batch(_found(FLAT), RemainingBudgetView()), BatchProposal)
    stop = _gate().select_batch(_found(STEEP), RemainingBudgetView())
    # On [0, 1] the two best scores are 1 and 4/9, where evenly falling ones are 1 and 3/4: 5/9 by 1/4.
    assert (stop.reason, stop.details) == ("gate_closed", {"margin": 2.222222, "threshold": 2.0, "k": 2})
    shifted = _found([10 * score - 70 for score in STEEP])
    assert _gate().select_batch(shifted, RemainingBudgetView()) == stop, "the scale of the scores does not matter"
    assert isinstance(_gate(margin=2.3).select_batch(_found(STEEP), RemainingBudgetView()), BatchProposal)


def test_the_gate_closes_where_the_sources_agree_on_the_top_whatever_the_margins() -> None:
    same, other = _found(FLAT, FLAT), _found(STEEP, STEEP[::-1])
    stop = _gate().select_batch(same, RemainingBudgetView())
    assert stop.details == {"agreement": 1.0, "threshold": 0.7, "k": 2}
    assert isinstance(_gate().select_batch(other, RemainingBudgetView()), BatchProposal)
    # Pairs of three sources: one agrees in full, two not at all.
    assert isinstance(_gate().select_batch(_found(FLAT, FLAT, FLAT[::-1]), RemainingBudgetView()), BatchProposal)
    third = _gate(agreement=0.33).select_batch(_found(FLAT, FLAT, FLAT[::-1]), RemainingBudgetView())
    assert isinstance(third, StopRecord)


def test_documents_that_tie_with_one_outside_are_in_no_source_top_of_the_gate() -> None:
    alike = [1.0] * len(FLAT)
    assert isinstance(_gate().select_batch(_found(alike, alike), RemainingBudgetView()), BatchProposal)
    assert isinstance(_gate().select_batch(_found(FLAT, alike), RemainingBudgetView()), BatchProposal)


def test_the_gate_decides_once_and_never_for_a_pool_within_the_top() -> None:
    assert isinstance(_gate().select_batch(_found(STEEP[:2]), RemainingBudgetView()), BatchProposal)
    stop = GateScheduler(OneShotScheduler(), k=4, margin=0.0).select_batch(OPEN, RemainingBudgetView())
    assert stop.reason == "one_shot_done", "what was begun is the other scheduler's to end"
