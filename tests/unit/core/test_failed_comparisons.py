"""A failed comparison puts its documents back: they keep their places and are sent again, in smaller windows."""

from typing import Any

import pytest

from ragtune.core.batches.failures import FailurePolicy
from ragtune.core.component import RerankerFacts
from ragtune.core.output import ControllerOutput
from ragtune.schedulers.cascade import CascadeScheduler
from ragtune.schedulers.greedy import GreedyScheduler
from ragtune.schedulers.one_shot import OneShotScheduler
from ragtune.schedulers.sliding_window import SlidingWindowScheduler
from ragtune.schedulers.windows import WindowsScheduler


def ids(*numbers: int) -> list[str]:
    return [f"doc_{number:03d}" for number in numbers]


REFUSED = RuntimeError("no answer")


def last_first(items: Any) -> dict[str, float]:
    best_first = sorted(items, key=lambda item: -item.initial_rank)
    return {item.doc_id: 1 / (2 + rank) for rank, item in enumerate(best_first)}


@pytest.fixture
def comparing(fakes: Any) -> Any:
    class Comparing(fakes.Reranker):
        facts = RerankerFacts(compares=True)

    return Comparing


def sent(output: ControllerOutput) -> list[list[str]]:
    return [event.details["doc_ids"] for event in output.trace.find("propose")]


def test_one_failed_call_leaves_the_first_stages_order(fakes: Any, comparing: Any) -> None:
    output = fakes.controller(reranker=comparing(script=[REFUSED]), scheduler=OneShotScheduler(8)).run("q")
    assert output.ranking == tuple(ids(*range(20)))
    assert output.dropped == {}
    assert (output.batches.sent, output.batches.failed) == (1, 1)
    assert (output.history[-1].cost.docs, output.history[-1].cost.calls) == (8, 1)
    assert output.trace.find("put_back")[0].details == {"doc_ids": ids(*range(8)), "error": "RuntimeError: no answer"}
    assert output.trace.find("drop") == []


@pytest.mark.parametrize("scheduler", [GreedyScheduler(batch_size=5), SlidingWindowScheduler(window=5, step=3)])
def test_half_of_the_documents_that_went_back_are_sent_next_and_all_are_scored(
    fakes: Any, comparing: Any, scheduler: Any
) -> None:
    script = [REFUSED, last_first, REFUSED, REFUSED, *[last_first] * 9]
    output = fakes.controller(reranker=comparing(script=script), scheduler=scheduler).run("q")
    windows = sent(output)
    assert windows[:2] == [ids(*range(5)), ids(0, 1)]
    assert windows[2][:2] == ids(2, 3)
    assert windows[3:5] == [windows[2][: len(windows[2]) // 2], ids(2)]
    assert len(windows[5]) > 1
    assert output.stop.reason == "pool_exhausted"
    assert output.history[-1].cost.calls == len(windows)
    assert output.dropped == {}


def test_hopeless_work_ends_and_the_first_stages_order_stands(fakes: Any, comparing: Any) -> None:
    output = fakes.controller(reranker=comparing(script=[REFUSED] * 99), scheduler=GreedyScheduler(batch_size=5)).run(
        "q"
    )
    assert sent(output) == [ids(*range(5)), ids(0, 1), ids(0)]
    assert output.stop.reason == "strategy_closed"
    assert output.ranking == tuple(ids(*range(20)))
    assert output.history[-1].cost.calls == 3


@pytest.mark.parametrize("answers", [[], [last_first] * 3])
@pytest.mark.parametrize("scheduler", [GreedyScheduler(batch_size=5), WindowsScheduler(window=5)])
def test_it_ends_without_a_limit_however_many_failures_are_allowed(
    fakes: Any, comparing: Any, scheduler: Any, answers: list[Any]
) -> None:
    patient = FailurePolicy(batches_in_a_row=10**9)
    reranker = comparing(script=[*answers, *[REFUSED] * 99])
    output = fakes.controller(reranker=reranker, scheduler=scheduler, failures=patient).run("q")
    assert output.stop.reason == "strategy_closed"
    assert output.batches.failed == 20 + 1
    assert len(output.ranking) == 20


def test_the_strategy_alone_that_compares_puts_back(fakes: Any, comparing: Any) -> None:
    strong, weak = comparing(script=[REFUSED] * 99), fakes.Reranker()
    scheduler = CascadeScheduler({"strong": 99}, batch_size=5, escalate_above=0.0, min_docs=0)
    output = fakes.controller(reranker={"default": weak, "strong": strong}, scheduler=scheduler).run("q")
    assert [len(batch) for batch in strong.batches] == [5, 2, 1]
    assert sorted(doc_id for batch in weak.batches for doc_id in batch) == ids(*range(20))
    assert output.dropped == {}
