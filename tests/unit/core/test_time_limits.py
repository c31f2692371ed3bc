"""A time limit on a real clock: what is expected to pass it does not start, and recorded time counts too."""

import pytest

from ragtune import CostBudget
from ragtune.core.batches.runner import Pace
from ragtune.core.types import CostObject
from ragtune.schedulers.greedy import GreedyScheduler


def test_a_line_through_the_batches_errs_on_the_long_side():
    pace = Pace()
    for docs, ms in [(10, 120.0), (20, 220.0), (5, 70.0)]:
        pace.observe(docs, ms)
    assert pace.expect(40) == pytest.approx(420.0)
    assert pace.expect(1) == pytest.approx(30.0)
    for _ in range(3):
        pace.observe(10, 150.0)
    assert pace.expect(10) >= 150.0 - 1e-9


@pytest.fixture
def slow(machine):
    def make(ms: float):
        def score(items):
            machine.work(ms * len(items))
            return {item.doc_id: 0.5 for item in items}

        return score

    return make


def test_no_live_batch_starts_that_is_expected_to_end_after_the_limit(fakes, slow):
    reranker = fakes.Reranker(script=[slow(40)] * 20, recorded=False)
    budget = CostBudget.only(max_latency_ms=500.0)
    output = fakes.controller(reranker=reranker, scheduler=GreedyScheduler(batch_size=2), budget=budget).run("q")
    assert len(reranker.batches) == 6  # of 80 ms each
    assert output.stop.reason in ("budget_exhausted", "budget_denied")
    assert "latency_ms" in output.stop.message


def test_what_was_learned_holds_for_the_next_request(fakes, slow):
    reranker = fakes.Reranker(script=[slow(40)] * 20, recorded=False)
    controller = fakes.controller(reranker=reranker, scheduler=GreedyScheduler(batch_size=5))
    controller.run("q", CostBudget.only(max_reranker_docs=5))
    output = controller.run("q", CostBudget.only(max_latency_ms=100.0))
    assert all(len(batch) < 3 for batch in reranker.batches[1:])
    assert output.trace.find("propose")[0].details["expected_cost"]["latency_ms"] > 0


def test_a_cached_live_batch_takes_the_time_that_it_took_when_it_was_made(fakes, machine):
    reranker = fakes.Reranker(recorded=False, act=lambda ctx: ctx.meter.charge(CostObject(latency_ms=400.0)))
    output = fakes.controller(reranker=reranker, budget=CostBudget.only(max_latency_ms=1000.0)).run("q")
    assert len(reranker.batches) == 2
    assert output.final_budget_state["latency"] == 800.0


@pytest.mark.parametrize("shrinks", [True, False])
def test_one_hiccup_does_not_forbid_all_that_comes_later(fakes, slow, shrinks):
    reranker = fakes.Reranker(script=[slow(300), *[slow(1)] * 99], recorded=False)
    scheduler = GreedyScheduler(batch_size=5) if shrinks else fakes.Scheduler(batch_size=5)
    budget = CostBudget.only(max_latency_ms=400.0)
    controller = fakes.controller(reranker=reranker, scheduler=scheduler, budget=budget)
    docs = [controller.run(f"q{i}").final_budget_state["rerank_docs"] for i in range(6)]
    assert docs[0] == 5  # a cold first batch of 1.5 seconds
    assert max(docs[1:]) > 5


def test_a_warm_up_on_a_busy_machine_is_corrected(fakes, slow):
    reranker = fakes.Reranker(
        cost=lambda items: CostObject(latency_ms=500.0 * len(items)), script=[slow(1)] * 99, recorded=False
    )
    budget = CostBudget.only(max_latency_ms=400.0)
    controller = fakes.controller(reranker=reranker, scheduler=GreedyScheduler(batch_size=5), budget=budget)
    docs = [controller.run(f"q{i}").final_budget_state["rerank_docs"] for i in range(10)]
    assert docs[0] == 0
    assert docs[1] > 5  # its first document has told that the warm-up was wrong


def test_a_batch_that_failed_says_nothing_of_what_one_takes(fakes, machine, slow):
    def hang(items):
        machine.work(300.0)
        raise TimeoutError("deadline")

    reranker = fakes.Reranker(script=[hang, *[slow(1)] * 99], recorded=False)
    controller = fakes.controller(reranker=reranker, budget=CostBudget.only(max_latency_ms=250.0))
    assert [controller.run(f"q{i}").final_budget_state["rerank_docs"] for i in range(2)] == [5, 20]


def test_what_a_batch_has_waited_is_no_part_of_what_one_takes(fakes, machine):
    rush = [300.0]

    def wait(context):
        for ms in rush:
            machine.work(ms)
            context.meter.wait(ms)

    reranker = fakes.Reranker(act=wait, recorded=False)
    controller = fakes.controller(reranker=reranker, scheduler=fakes.Scheduler(batch_size=5))
    controller.run("q", CostBudget.only(max_reranker_docs=5))
    rush.clear()
    output = controller.run("q", CostBudget.only(max_latency_ms=250.0))
    assert output.final_budget_state["rerank_docs"] == 20
