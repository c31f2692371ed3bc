"""The loop: why it stops, what may be proposed, what is charged, and the anytime history."""

from __future__ import annotations

import math
import re

import pytest

from ragtune import CostBudget, ScoredDocument
from ragtune.core.types import BatchProposal, CostObject, StopRecord

limits = CostBudget.only


def batch(*doc_ids: str, **fields) -> BatchProposal:
    return BatchProposal(doc_ids=list(doc_ids), **fields)


@pytest.mark.parametrize(
    ("budget", "unit"),
    [
        (limits(max_reranker_docs=10), "rerank_docs"),
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
        (limits(max_tokens=240, assembly_token_buffer=100), "token_limit_exceeded"),
        (limits(max_latency_ms=15.0), "latency_exceeded"),
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


@pytest.mark.parametrize("script", [[], [RuntimeError("timed out")]], ids=["succeeds", "fails"])
def test_a_batch_that_runs_over_is_not_cut_but_traced(fakes, script):
    reranker = fakes.Reranker(
        cost=lambda items: CostObject(docs=5, calls=1, latency_ms=10.0),
        act=lambda ctx: ctx.meter.charge(CostObject(docs=5, calls=1, latency_ms=60.0)),
        script=script,
    )
    output = fakes.controller(reranker=reranker, budget=limits(max_latency_ms=50.0)).run("q")
    assert len(reranker.batches) == 1
    assert output.final_budget_state["latency"] == 60.0
    over = output.trace.find("overrun_latency")
    assert [event.details for event in over] == [{"limit_ms": 50.0, "elapsed_ms": 60.0, "batch_ms": 60.0}]
    assert output.stop.reason == "budget_exhausted"


def found(*ids: str, score: float = 0.4, **fields) -> list[ScoredDocument]:
    return [ScoredDocument(id=doc_id, score=score, token_count=10, **fields) for doc_id in ids]


def test_an_expander_is_told_its_limit_and_denied_beyond_it(fakes):
    expander = fakes.Expander(lambda pool, limit: found("x", "y", "z"))
    output = fakes.controller(expander=expander, budget=limits(max_expanded_docs=2)).run("q")
    assert set(expander.limits) == {2}
    assert output.final_budget_state["expanded_docs"] == 0
    assert output.trace.find("deny_expansion", "budget")
    assert len(output.ranking) == 20


def test_known_and_repeated_finds_are_neither_added_nor_charged(fakes):
    finds = [*found("doc_003", "new"), *found("new", score=0.9)]
    assembler = fakes.Assembler()
    output = fakes.controller(expander=fakes.Expander(lambda pool, limit: finds), assembler=assembler).run("q")
    assert output.final_budget_state["expanded_docs"] == 1
    assert {item.doc_id: item for item in assembler.seen}["new"].retrieval_score == 0.4
    assert len(output.ranking) == 21


@pytest.mark.parametrize(
    "find",
    [
        lambda pool, limit: 1 / 0,
        lambda pool, limit: found("new", score=math.nan),
        lambda pool, limit: found("new", sources={"graph": math.inf}),
        lambda pool, limit: None,
    ],
    ids=["raises", "NaN", "inf source", "None"],
)
def test_a_failing_expander_costs_nothing_and_the_run_goes_on(fakes, find):
    output = fakes.controller(expander=fakes.Expander(find)).run("q")
    assert len(output.trace.find("expansion_failed", "expander")) == 4
    assert output.final_budget_state["expanded_docs"] == 0
    assert output.stop.reason == "pool_exhausted"
    assert len(output.ranking) == 20
