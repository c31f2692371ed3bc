"""The loop: why it stops, what may be proposed, what is charged, and the anytime history."""

from __future__ import annotations

import math
import re

import pytest

from ragtune import CostBudget, ScoredDocument
from ragtune.core.policy.batching import choose
from ragtune.core.pool.items import PoolItem
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.types import BatchProposal, CostObject, StopRecord

limits = CostBudget.only


def batch(*doc_ids: str, **fields) -> BatchProposal:
    return BatchProposal(doc_ids=list(doc_ids), **fields)


@pytest.mark.parametrize(
    ("budget", "unit"), [(limits(max_reranker_docs=10), "rerank_docs"), (limits(max_latency_ms=20.0), "latency_ms")]
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


def grown(retrieved, discovered) -> CandidatePool:
    pool = CandidatePool(
        PoolItem(doc_id=f"r{i}", initial_rank=i, retrieval_score=s, sources={"bm25": s})
        for i, s in enumerate(retrieved)
    )
    pool.add(
        PoolItem(doc_id=f"g{i}", initial_rank=len(retrieved) + i, retrieval_score=s, sources={"graph": s})
        for i, s in enumerate(discovered)
    )
    return pool


def test_the_estimator_sees_the_scores_before_the_expander_is_asked(fakes):
    seen = []

    def value(pool, context):
        seen.append(("estimate", len(pool), len(pool.reranked)))
        return pool.valuation(pool.base_scores)

    def find(pool, limit):
        seen.append(("expand", len(pool), len(pool.reranked)))
        return [ScoredDocument(id="new", score=0.5)] if len(pool) == 20 else []

    fakes.controller(
        estimator=fakes.Estimator(value), expander=fakes.Expander(find), budget=limits(max_reranker_docs=10)
    ).run("q")
    assert seen == [
        ("estimate", 20, 0),
        ("estimate", 20, 5),
        ("expand", 20, 5),
        ("estimate", 21, 5),
        ("estimate", 21, 10),
    ]


def test_nothing_is_looked_for_that_no_batch_could_score(fakes):
    expander = fakes.Expander(lambda pool, limit: [])
    fakes.controller(expander=expander, budget=limits(max_reranker_docs=10)).run("q")
    assert len(expander.limits) == 1


def test_growth_changes_no_retrieved_document_s_value():
    before = grown([30.0, 20.0, 10.0], []).roster.first_stage_scores
    after = grown([30.0, 20.0, 10.0], [0.4, 0.1]).roster.first_stage_scores
    assert after.tolist() == [*before.tolist(), 0.4, 0.1]


@pytest.mark.parametrize("source", ["graph", "bm25"])
def test_values_after_growth_are_the_same_whether_or_not_they_were_asked_for_before(source):
    pools = [grown([30.0, 20.0, 10.0], [0.2]) for _ in range(2)]
    _ = pools[0].roster.first_stage_scores
    for pool in pools:
        pool.add([PoolItem(doc_id="late", initial_rank=9, retrieval_score=25.0, sources={source: 25.0})])
    assert pools[0].roster.first_stage_scores.tolist() == pools[1].roster.first_stage_scores.tolist()


@pytest.mark.parametrize(("limit", "expected"), [(None, 3), (2, 2), (1, 1), (9, 3)])
def test_an_estimator_may_limit_the_batch(fakes, limit, expected):
    pool = fakes.pool(6)
    pool.apply_priorities(pool.valuation(pool.base_scores, batch_limit=limit))
    assert choose(pool, 3, None) == list(pool.doc_ids[:expected])
