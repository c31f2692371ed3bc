import math

import pytest
from pydantic import ValidationError

from ragtune import CostBudget, CostTracker
from ragtune.core.request.clock import VirtualClock
from ragtune.core.request.trace import ControllerTrace
from ragtune.core.types import CostObject
from ragtune.core.units import TIME, UNITS

LIMITS = [name for name in CostBudget.model_fields if name.startswith("max_")]


def tracker_of(clock: VirtualClock | None = None, **limits) -> CostTracker:
    budget = CostBudget.only(**limits)
    return budget.create_tracker(ControllerTrace(), clock or VirtualClock())


def last(tracker: CostTracker) -> tuple[str, dict]:
    event = tracker.trace.events[-1]
    assert event.component == "budget"
    return event.action, event.details


def test_the_defaults_are_the_specs():
    budget = CostBudget()
    assert (budget.max_tokens, budget.max_reranker_docs, budget.max_reformulations, budget.max_latency_ms) == (
        4000,
        50,
        1,
        2000.0,
    )
    assert budget.charge_failures is True


def test_only_limits_what_it_names_and_nothing_else():
    budget = CostBudget.only(max_reranker_docs=20)
    assert {name: getattr(budget, name) for name in LIMITS} == dict.fromkeys(LIMITS) | {"max_reranker_docs": 20}
    assert CostBudget.only() == CostBudget.unlimited()
    with pytest.raises(ValidationError, match="docs"):
        CostBudget.only(docs=20)


@pytest.mark.parametrize(
    ("given", "kept"),
    [({}, 2000), ({"max_tokens": None}, 0), ({"max_tokens": 7}, 3), ({"assembly_token_buffer": 0}, 0)],
)
def test_half_of_the_tokens_are_kept_for_the_context_unless_said_otherwise(given, kept):
    tracker = CostBudget(**given).create_tracker()
    assert tracker.remaining_view().assembly_token_buffer == kept


@pytest.mark.parametrize("name", [*LIMITS, "assembly_token_buffer"])
@pytest.mark.parametrize("bad", [-1, math.nan, -math.inf, "many"])
def test_a_bad_limit_is_refused_by_name(name, bad):
    with pytest.raises(ValidationError, match=name):
        CostBudget(**{name: bad})


@pytest.mark.parametrize(
    ("limits", "cost", "reason"),
    [
        ({"max_reranker_docs": 5}, CostObject(docs=6), "doc_limit_exceeded"),
        ({"max_reranker_calls": 5}, CostObject(calls=6), "call_limit_exceeded"),
        ({"max_tokens": 5}, CostObject(tokens=6), "token_limit_exceeded"),
        ({"max_tokens": 5, "assembly_token_buffer": 2}, CostObject(tokens=4), "token_limit_exceeded"),
        ({"max_latency_ms": 5.0}, CostObject(latency_ms=5.5), "latency_exceeded"),
        ({"max_cost_usd": 0.5}, CostObject(usd=0.75), "cost_limit_exceeded"),
        ({"max_flops": 5e12}, CostObject(flops=6e12), "flop_limit_exceeded"),
        ({"max_search_units": 2}, CostObject(search_units=3), "search_unit_limit_exceeded"),
        ({"max_joules": 5.0}, CostObject(joules=6.0), "energy_limit_exceeded"),
    ],
)
def test_a_batch_over_one_unit_is_denied_whole_and_says_which(limits, cost, reason):
    tracker = tracker_of(**limits)
    assert not tracker.consume(cost)
    action, details = last(tracker)
    assert (action, details["reason"]) == ("deny_rerank", reason)
    assert details["requested"] > details["remaining"]
    assert tracker.spent() == CostObject()


def test_limits_that_are_sums_of_prices_are_used_up_exactly():
    tracker = tracker_of(max_cost_usd=0.3)
    assert [tracker.consume(CostObject(usd=0.1)) for _ in range(4)] == [True, True, True, False]
    assert tracker.snapshot()["usd"] == 0.3
    clock = VirtualClock()
    tracker = tracker_of(clock, max_latency_ms=0.3)
    for _ in range(3):
        assert tracker.remaining_view().affords(CostObject(latency_ms=0.1))
        assert tracker.consume(CostObject(latency_ms=0.1))
        clock.advance(0.1)
    assert tracker.is_exhausted()


def test_a_measured_batch_that_passed_the_limit_is_the_last():
    tracker = tracker_of(max_joules=5.0)
    expected = CostObject(docs=1)
    assert tracker.consume(expected)
    tracker.settle(expected, CostObject(docs=1, joules=6.0))
    assert not tracker.consume(expected)
    assert tracker.exhausted_account()[:3] == ("joules", 6.0, 5.0)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_is_known_wherever_costs_are(unit):
    kind = int if unit.is_count else float
    cost = CostObject(**{unit.name: kind(3)})
    tracker = tracker_of()
    assert tracker.consume(cost)
    view = CostBudget.only(**{unit.limit: 2}).create_tracker().remaining_view()
    assert not view.affords(cost)
    assert (cost + cost).by_unit()[unit.name] == 6
    if unit is not TIME:  # which the clock tells
        assert tracker.spent() == cost
        assert tracker.snapshot()[unit.account] == 3
    assert unit.is_always_told == (unit.name in CostObject().model_dump())


def test_reranking_stops_at_the_buffer_and_assembly_may_spend_it():
    tracker = tracker_of(max_tokens=100, assembly_token_buffer=30)
    assert tracker.consume(CostObject(tokens=70))
    assert not tracker.consume(CostObject(tokens=1))
    assert tracker.remaining_view().remaining_tokens == 30
    assert tracker.try_consume_tokens(30)
    assert not tracker.try_consume_tokens(1)


@pytest.mark.parametrize("billed", [100, 5000])
def test_an_overrun_leaves_the_buffer_to_assembly_and_ends_spending(billed):
    tracker = tracker_of(max_tokens=100, assembly_token_buffer=30)
    tracker.consume(CostObject(tokens=10))
    tracker.settle(CostObject(tokens=10), CostObject(tokens=billed))
    assert tracker.exhausted_account()[:3] == ("tokens", billed, 100)
    assert [tracker.try_consume_tokens(n) for n in (31, 20, 11, 10, 1)] == [False, True, False, True, False]
    assert tracker.snapshot()["tokens"] == billed + 30
