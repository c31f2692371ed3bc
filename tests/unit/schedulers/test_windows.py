"""Windows in the controller's loop: documents are sent again, paid for again, and the budget is in calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ragtune.core.request.budget import CostBudget
from ragtune.estimators.baseline import BaselineEstimator
from ragtune.estimators.comparing.blitzrank import BlitzRankEstimator
from ragtune.estimators.comparing.sliding import SlidingEstimator
from ragtune.schedulers.windows import WindowsScheduler


class Truth:
    """What documents are worth: the later they come, the more; a window that holds a broken one fails."""

    def __init__(self, broken: int | None = None) -> None:
        self.broken = broken

    def __call__(self, items: Any) -> dict[str, float]:
        if any(item.initial_rank == self.broken for item in items):
            raise RuntimeError("no answer")
        best_first = sorted(items, key=lambda item: -item.initial_rank)
        return {item.doc_id: 1 / (2 + rank) for rank, item in enumerate(best_first)}


@pytest.fixture
def controller(fakes: Any) -> Callable[..., Any]:
    def make(estimator: Any, truth: Any = None, **budget: int) -> Any:
        from ragtune.assemblers.greedy import GreedyAssembler

        return fakes.controller(
            documents=fakes.docs(30),
            estimator=estimator,
            scheduler=WindowsScheduler(5),
            reranker=fakes.Reranker(script=[truth or Truth()] * 60),
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


def test_a_call_that_fails_takes_nothing_from_what_was_compared_before(controller):
    output = controller(SlidingEstimator(window=8, step=4, depth=30), Truth(broken=14)).run("q")
    assert output.batches.failed == 2  # both windows that hold it
    assert output.dropped == {}
    assert output.ranking.index("doc_029") < output.ranking.index("doc_018")
    assert [doc_id for doc_id in output.ranking if doc_id in ("doc_014", "doc_015")] == ["doc_014", "doc_015"]


def test_the_leading_documents_stay_in_front_where_their_window_fails(controller):
    output = controller(SlidingEstimator(window=8, step=4, depth=30), Truth(broken=0), max_reranker_calls=1).run("q")
    assert output.ranking == tuple(f"doc_{i:03d}" for i in range(30))
    assert (output.final_budget_state["rerank_calls"], output.batches.failed) == (1, 1)


def test_where_every_call_fails_the_first_stages_order_stands(controller):
    def refuses(items):
        raise RuntimeError("no answer")

    output = controller(BlitzRankEstimator(window=8, top_k=3), refuses).run("q")
    assert output.ranking == tuple(f"doc_{i:03d}" for i in range(30))
    assert [len(call.details["doc_ids"]) for call in output.trace.find("propose")] == [8, 4, 2]
    assert output.stop.reason == "strategy_closed"


def test_an_estimator_without_a_wish_gets_windows_of_its_best_each_once(controller):
    output = controller(BaselineEstimator()).run("q")
    sent = [call.details["doc_ids"] for call in output.trace.find("propose")]
    assert [len(window) for window in sent] == [5] * 6
    assert [doc_id for window in sent for doc_id in window] == [f"doc_{i:03d}" for i in range(30)]
