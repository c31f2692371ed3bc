from __future__ import annotations

import numpy as np
import pytest

from ragtune import CostBudget
from ragtune.core.types import BatchProposal, CostObject

limits = CostBudget.only


def batch(*doc_ids: str, **fields) -> BatchProposal:
    return BatchProposal(doc_ids=list(doc_ids), **fields)


# -- costs -------------------------------------------------------------------------------------------------------------


def test_the_true_charge_replaces_the_expected_one_and_actual_cost_is_apart(fakes):
    def act(ctx):
        ctx.meter.charge(CostObject(docs=5, calls=1, tokens=70))
        ctx.meter.pay(CostObject(docs=2, calls=1, tokens=20))

    reranker = fakes.Reranker(cost=lambda items: CostObject(docs=5, calls=1, tokens=100), act=act)
    output = fakes.controller(reranker=reranker).run("q")
    assert output.history[-1].cost.tokens == 4 * 70
    assert output.actual_cost == CostObject(docs=8, calls=4, tokens=80)
    assert len(output.trace.find("settle_rerank")) == 4


def test_the_virtual_clock_moves_by_each_batchs_charged_latency(fakes):
    reranker = fakes.Reranker(cost=lambda items: CostObject(docs=5, calls=1, latency_ms=10.0))
    output = fakes.controller(reranker=reranker).run("q")
    assert [step.cost.latency_ms for step in output.history] == [0.0, 10.0, 20.0, 30.0, 40.0]


def test_no_batch_starts_that_is_expected_to_pass_the_deadline(fakes):
    reranker = fakes.Reranker(cost=lambda items: CostObject(docs=5, calls=1, latency_ms=10.0))
    output = fakes.controller(reranker=reranker, budget=limits(max_latency_ms=25.0)).run("q")
    assert len(reranker.batches) == 2
    assert output.final_budget_state["latency"] == 20.0
    assert output.stop.details["reason"] == "latency_exceeded"
    assert output.trace.find("overrun_latency") == []


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


def test_scores_in_the_trace_are_plain_numbers(fakes):
    reranker = fakes.Reranker(script=[lambda items: {item.doc_id: np.float32(0.5) for item in items}])
    output = fakes.controller(reranker=reranker).run("q")
    assert set(output.trace.find("rerank")[0].details["scores"].values()) == {0.5}
    assert '"doc_000":0.5' in output.trace.model_dump_json()
