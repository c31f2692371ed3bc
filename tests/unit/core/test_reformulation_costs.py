"""What rewriting a query costs: tokens, time and money of reranking's account, on a count of calls of its own."""

from __future__ import annotations

import pytest

from ragtune import CostBudget, RetrievalPlan
from ragtune.core.errors import ConfigError
from ragtune.core.interfaces import BaseReformulator
from ragtune.core.request.clock import VirtualClock
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.rounds import RetrievalRounds
from ragtune.core.types import CostObject

PLAN = RetrievalPlan(original_query_depth=10, depth_per_reformulation=5, num_reformulations=4)
PRICE = CostObject(tokens=100, calls=2, latency_ms=50.0, usd=0.5)


class Costly(BaseReformulator):
    """Expects ``PRICE``, is charged ``true`` (None: as expected), and does what ``act`` says."""

    def __init__(self, true=None, act=lambda context: ["one"], price=PRICE):
        self.true, self.act, self.price = true, act, price
        self.wanted = []

    def expected_cost(self, context, first_round):
        if isinstance(self.price, Exception):
            raise self.price
        return self.price

    def generate(self, context, first_round):
        self.wanted.append(context.num_reformulations)
        if self.true is not None:
            context.meter.charge(self.true)
            context.meter.pay(self.true)
        return self.act(context)


def fail(context):
    raise RuntimeError("no model")


def run(fakes, reformulator, **limits):
    budget = CostBudget.only(**limits)
    context = RAGtuneContext(query="query", query_id="q", tracker=budget.create_tracker(clock=VirtualClock()))
    rounds = RetrievalRounds(fakes.Retriever(fakes.docs(20)), reformulator, PLAN).run(context)
    return context, [r.strategy for r in rounds]


def events(context):
    return {event.action: event.details for event in context.trace.events if event.component == "budget"}


def test_the_plan_tells_the_reformulator_how_many_rewrites_are_wanted(fakes):
    reformulator = Costly()
    run(fakes, reformulator)
    assert reformulator.wanted == [4]


def test_an_expected_cost_is_booked_and_its_time_passes(fakes):
    context, rounds = run(fakes, Costly())
    assert rounds == ["original", "rewrite_0"]
    assert context.tracker.spent() == CostObject(tokens=100, latency_ms=50.0, usd=0.5)
    assert events(context)["consume_reformulation"] == {"count": 1, "cost": PRICE.model_dump()}
    assert "settle_reformulation" not in events(context)


@pytest.mark.parametrize(("tokens", "action"), [(60, "settle_reformulation"), (300, "overrun_reformulation")])
def test_the_true_cost_replaces_the_expected_one(fakes, tokens, action):
    true = CostObject(tokens=tokens, calls=1, latency_ms=20.0, usd=0.25)
    context, _ = run(fakes, Costly(true), max_tokens=250)
    assert context.tracker.spent() == CostObject(tokens=tokens, latency_ms=20.0, usd=0.25)
    assert events(context)[action] == {"charged": PRICE.model_dump(), "actual": true.model_dump()}
    assert context.meter.actual == true


@pytest.mark.parametrize(
    ("limits", "reason", "remaining"),
    [
        ({"max_tokens": 99, "assembly_token_buffer": 0}, "token_limit_exceeded", 99),
        ({"max_tokens": 120, "assembly_token_buffer": 30}, "token_limit_exceeded", 90),
        ({"max_cost_usd": 0.4}, "cost_limit_exceeded", 0.4),
        ({"max_latency_ms": 49.0}, "latency_exceeded", 49.0),
    ],
)
def test_what_does_not_fit_is_denied_whole_before_it_runs(fakes, limits, reason, remaining):
    reformulator = Costly()
    context, rounds = run(fakes, reformulator, **limits)
    assert (rounds, reformulator.wanted) == (["original"], [])
    denied = events(context)["deny_reformulation"]
    assert (denied["reason"], denied["remaining"]) == (reason, remaining)
    assert context.tracker.snapshot() == CostBudget().create_tracker(clock=VirtualClock()).snapshot()


def test_a_denied_count_books_no_cost(fakes):
    context, _ = run(fakes, Costly(), max_reformulations=0)
    assert context.tracker.spent() == CostObject()


def test_reranker_calls_and_documents_are_no_concern_of_rewriting(fakes):
    context, rounds = run(fakes, Costly(), max_reranker_calls=0, max_reranker_docs=0)
    assert rounds == ["original", "rewrite_0"]
    assert (context.tracker.spent().calls, context.tracker.snapshot()["reformulations"]) == (0, 1)


@pytest.mark.parametrize("true", [None, CostObject(tokens=30, calls=1, usd=0.1)])
def test_a_failure_is_given_back_and_its_waste_is_traced(fakes, true):
    context, rounds = run(fakes, Costly(true, fail), charge_failures=False)
    assert rounds == ["original"]
    wasted = true or CostObject(latency_ms=PRICE.latency_ms)
    assert events(context)["refund_reformulation"] == {"wasted": wasted.model_dump()}
    assert (context.tracker.spent().tokens, context.tracker.spent().usd) == (0, 0.0)


def test_a_failure_is_charged_as_reported(fakes):
    context, _ = run(fakes, Costly(CostObject(tokens=30), fail))
    assert context.tracker.spent().tokens == 30
    assert events(context)["charge_failure"] == {"cost": CostObject(tokens=30).model_dump()}


def test_bad_input_ends_the_run_and_a_price_that_cannot_be_told_is_a_failure(fakes):
    def refuse(context):
        raise ConfigError("no such model")

    with pytest.raises(ConfigError):
        run(fakes, Costly(act=refuse))
    context, rounds = run(fakes, Costly(price=RuntimeError("no price")))
    assert rounds == ["original"]
    assert "no price" in context.trace.find("reformulation_failed")[0].details["error"]


def test_what_rewriting_really_cost_is_part_of_what_the_run_paid(fakes):
    paid = CostObject(tokens=30, calls=1, usd=0.1)
    output = fakes.controller(reformulator=Costly(paid), plan=PLAN).run("query")
    assert output.actual_cost == paid
    assert output.history[0].cost.tokens == 30


def test_time_that_was_unknown_is_no_overrun():
    tracker = CostBudget().create_tracker()
    tracker.settle(CostObject(docs=1), CostObject(docs=1, latency_ms=70.0))
    assert tracker.trace.events[-1].action == "settle_rerank"
