from __future__ import annotations

import re

import pytest

from ragtune import CostBudget
from ragtune.core.types import BatchProposal, CostObject, StopRecord

limits = CostBudget.only


def actions(output) -> list[str]:
    return [event.action for event in output.trace.events]


def batch(*doc_ids: str, **fields) -> BatchProposal:
    return BatchProposal(doc_ids=list(doc_ids), **fields)


# -- why it stops ------------------------------------------------------------------------------------------------------


def test_a_drained_pool_stops_the_loop(fakes):
    reranker = fakes.Reranker()
    output = fakes.controller(reranker=reranker).run("q")
    assert (output.stop.reason, output.stop.source) == ("pool_exhausted", "controller")
    assert [len(ids) for ids in reranker.batches] == [5, 5, 5, 5]


def test_an_empty_pool_stops_the_loop_before_it_starts(fakes):
    output = fakes.controller(documents=[]).run("q")
    assert output.stop.reason == "empty_pool"
    assert output.documents == []
    assert output.ranking == ()


@pytest.mark.parametrize(
    ("budget", "unit"),
    [
        (limits(max_reranker_docs=10), "rerank_docs"),
        (limits(max_reranker_calls=2), "rerank_calls"),
        (limits(max_latency_ms=20.0), "latency_ms"),
    ],
)
def test_a_used_up_unit_stops_the_loop_and_is_named(fakes, budget, unit):
    reranker = fakes.Reranker(cost=lambda items: CostObject(docs=len(items), calls=1, latency_ms=10.0, usd=0.1))
    output = fakes.controller(reranker=reranker, budget=budget).run("q")
    assert (output.stop.reason, output.stop.source) == ("budget_exhausted", "budget")
    assert output.stop.details["limit"] == unit
    assert len(reranker.batches) == 2


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        (limits(max_reranker_docs=7), "doc_limit_exceeded"),
        (limits(max_tokens=140, assembly_token_buffer=0), "token_limit_exceeded"),
        (limits(max_tokens=240, assembly_token_buffer=100), "token_limit_exceeded"),
        (limits(max_latency_ms=15.0), "latency_exceeded"),
        (limits(max_cost_usd=0.15), "cost_limit_exceeded"),
    ],
)
def test_a_batch_over_budget_is_denied_whole_before_it_runs(fakes, budget, reason):
    cost = CostObject(docs=5, calls=1, tokens=100, latency_ms=10.0, usd=0.1)
    reranker = fakes.Reranker(cost=lambda items: cost)
    output = fakes.controller(reranker=reranker, budget=budget).run("q")
    assert len(reranker.batches) == 1
    assert output.stop.reason == "budget_denied"
    assert output.stop.details["reason"] == reason
    denied = output.trace.find("deny_rerank", "budget")
    assert [event.details["reason"] for event in denied] == [reason]
    assert output.trace.find("stop")[0].details["details"]["reason"] == reason
    assert output.history[-1].cost.docs == 5


def test_the_scheduler_may_stop_and_its_reason_is_kept(fakes):
    record = StopRecord(reason="top_k_settled", source="scheduler", details={"reason": 1, "source": 2, "x": 0.5})
    output = fakes.controller(scheduler=fakes.Scheduler(choose=lambda pool, budget: record)).run("q")
    assert output.stop == record
    assert output.trace.find("stop")[0].details == {
        "reason": "top_k_settled",
        "source": "scheduler",
        "details": record.details,
        "message": "",
    }


def test_no_proposal_is_a_reason_too(fakes):
    output = fakes.controller(scheduler=fakes.Scheduler(choose=lambda pool, budget: None)).run("q")
    assert (output.stop.reason, output.stop.source) == ("no_proposal", "scheduler")
    assert "skip_rerank" not in actions(output)


# -- proposals ---------------------------------------------------------------------------------------------------------


def after_one_batch(then):
    def choose(pool, budget):
        return batch("doc_000", "doc_001") if not len(pool.reranked) else then(pool)

    return choose


@pytest.mark.parametrize(
    ("then", "error"),
    [
        (lambda pool: batch(), "empty batch"),
        (lambda pool: batch("doc_002", "doc_002"), "proposed twice"),
        (lambda pool: batch("doc_002", "doc_000"), r"not CANDIDATE: \['doc_000'\]"),
        (lambda pool: batch("doc_002", "stranger"), r"not CANDIDATE: \['stranger'\]"),
        (lambda pool: batch("doc_002", strategy="llm"), "unknown strategy 'llm': registered are default"),
    ],
)
def test_an_illegal_proposal_stops_the_loop_and_moves_nothing(fakes, then, error):
    reranker = fakes.Reranker()
    output = fakes.controller(scheduler=fakes.Scheduler(choose=after_one_batch(then)), reranker=reranker).run("q")
    assert output.stop.reason == "illegal_proposal"
    assert re.search(error, output.stop.details["error"])
    assert reranker.batches == [["doc_000", "doc_001"]]
    assert len(output.ranking) == 20
    assert output.history[-1].cost.docs == 2


def test_a_proposal_of_the_wrong_type_is_the_schedulers_failure(fakes):
    output = fakes.controller(scheduler=fakes.Scheduler(choose=lambda pool, budget: ["doc_000"])).run("q")
    assert output.stop.reason == "illegal_proposal"
    assert "list" in output.stop.details["error"]
    assert len(output.documents) == 20


def test_diagnostics_may_have_any_name(fakes):
    proposal = batch("doc_000", diagnostics={"doc_ids": 1, "strategy": 2, "component": 3})
    output = fakes.controller(
        scheduler=fakes.Scheduler(choose=lambda pool, budget: None if len(pool.reranked) else proposal)
    ).run("q")
    details = output.trace.find("propose")[0].details
    assert details["diagnostics"] == proposal.diagnostics


def test_the_schedulers_own_figures_are_not_what_is_charged(fakes):
    lie = CostObject(docs=0, calls=0)
    output = fakes.controller(
        scheduler=fakes.Scheduler(
            choose=lambda pool, budget: None if len(pool.reranked) else batch("doc_000", expected_cost=lie)
        )
    ).run("q")
    assert output.history[-1].cost.docs == 1


def test_schedulers_price_by_the_reranker_of_the_strategy(fakes):
    prices = []

    def choose(pool, budget):
        prices.append([budget.price(["doc_000", "doc_001"], strategy).tokens for strategy in budget.strategies])

    rerankers = {
        name: fakes.Reranker(cost=lambda items, each=each: CostObject(docs=len(items), tokens=each * len(items)))
        for name, each in (("cheap", 1), ("dear", 100))
    }
    fakes.controller(reranker=rerankers, scheduler=fakes.Scheduler(choose=choose)).run("q")
    assert prices == [[2, 200]]


def test_each_strategy_goes_to_its_own_reranker_and_is_remembered(fakes):
    def choose(pool, budget):
        return (
            batch("doc_000", strategy="a")
            if pool.is_candidate("doc_000")
            else (batch("doc_001", strategy="b") if pool.is_candidate("doc_001") else None)
        )

    rerankers = {"a": fakes.Reranker(), "b": fakes.Reranker()}
    assembler = fakes.Assembler()
    scheduler = fakes.Scheduler(choose=choose)
    fakes.controller(reranker=rerankers, scheduler=scheduler, assembler=assembler).run("q")
    assert rerankers["a"].batches == [["doc_000"]]
    assert rerankers["b"].batches == [["doc_001"]]
    assert [item.reranker_strategy for item in assembler.seen[:3]] == ["a", "b", None]
    assert scheduler.views[0].strategies == ("a", "b")
