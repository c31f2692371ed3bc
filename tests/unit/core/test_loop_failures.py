from __future__ import annotations

import math

import numpy as np
import pytest

from ragtune import CostBudget
from ragtune.core.errors import ScoreTableError
from ragtune.core.items import ItemState
from ragtune.core.types import BatchProposal, CostObject


def limits(**fields) -> CostBudget:
    return CostBudget.unlimited().model_copy(update=fields)


def actions(output) -> list[str]:
    return [event.action for event in output.trace.events]


def batch(*doc_ids: str, **fields) -> BatchProposal:
    return BatchProposal(doc_ids=list(doc_ids), **fields)


# -- failing components ------------------------------------------------------------------------------------------------


BROKEN_BATCHES = {
    "raises": RuntimeError("out of memory"),
    "NaN": lambda items: {item.doc_id: math.nan if i else 0.5 for i, item in enumerate(items)},
    "inf": lambda items: {item.doc_id: math.inf for item in items},
    "None score": lambda items: {item.doc_id: None for item in items},
    "text score": lambda items: {item.doc_id: "good" for item in items},
    "stranger": lambda items: {items[0].doc_id: 0.5, "stranger": 0.5},
    "document of no batch": lambda items: {items[0].doc_id: 0.5, "doc_019": 0.5},
    "a list": lambda items: [0.5 for _ in items],
    "None": None,
}


@pytest.mark.parametrize("step", BROKEN_BATCHES.values(), ids=BROKEN_BATCHES)
def test_a_failed_batch_is_dropped_unpaid_and_the_run_goes_on(fakes, step):
    reranker = fakes.Reranker(script=[step])
    output = fakes.controller(reranker=reranker).run("q")
    lost = reranker.batches[0]
    assert list(output.dropped) == lost
    assert set(output.ranking) == {f"doc_{i:03d}" for i in range(20)} - set(lost)
    assert output.history[-1].cost.docs == 15
    assert len(reranker.batches) == 4
    assert output.stop.reason == "pool_exhausted"
    assert output.trace.find("refund_rerank")[0].details["wasted"]["docs"] == 5
    drop = output.trace.find("drop")[0].details
    assert drop["doc_ids"] == lost
    assert drop["error"] == output.dropped[lost[0]]
    assert not set(lost) & {doc.id for doc in output.documents}


def test_a_failed_batch_is_charged_if_the_budget_says_so(fakes):
    reranker = fakes.Reranker(script=[RuntimeError("boom")])
    output = fakes.controller(reranker=reranker, budget=limits(max_reranker_docs=10, charge_failures=True)).run("q")
    assert len(reranker.batches) == 2
    assert output.history[-1].cost.docs == 10
    assert "charge_failure" in actions(output)


def test_a_failed_batch_wastes_what_it_really_cost(fakes):
    def fail(items):
        raise RuntimeError("cut off")

    for charge_failures in (False, True):
        reranker = fakes.Reranker(
            script=[fail, fail, fail, fail], act=lambda ctx: ctx.meter.charge(CostObject(docs=5, calls=1, tokens=30))
        )
        output = fakes.controller(reranker=reranker, budget=limits(charge_failures=charge_failures)).run("q")
        assert output.history[-1].cost.tokens == (120 if charge_failures else 0)
        action, key = ("charge_failure", "cost") if charge_failures else ("refund_rerank", "wasted")
        assert output.trace.find(action)[0].details[key]["tokens"] == 30


def test_every_batch_failing_still_gives_an_answer(fakes):
    reranker = fakes.Reranker(script=[RuntimeError("boom")] * 4)
    output = fakes.controller(reranker=reranker).run("q")
    assert output.ranking == ()
    assert output.documents == []
    assert len(output.dropped) == 20


def test_an_error_while_pricing_drops_the_batch_and_the_run_goes_on(fakes):
    prices = iter([RuntimeError("no price")])

    def cost(items):
        if (error := next(prices, None)) is not None:
            raise error
        return CostObject(docs=len(items), calls=1)

    reranker = fakes.Reranker(cost=cost)
    output = fakes.controller(reranker=reranker).run("q")
    assert len(output.dropped) == 5
    assert len(reranker.batches) == 3
    assert output.history[-1].cost.docs == 15


def test_partial_results_are_kept_and_the_missing_documents_dropped(fakes):
    reranker = fakes.Reranker(script=[lambda items: {items[1].doc_id: 0.9, items[3].doc_id: 0.8}])
    assembler = fakes.Assembler()
    output = fakes.controller(reranker=reranker, assembler=assembler, budget=limits(max_reranker_docs=5)).run("q")
    assert output.dropped == dict.fromkeys(["doc_000", "doc_002", "doc_004"], "not scored by the reranker")
    reranked = [item.doc_id for item in assembler.seen if item.state is ItemState.RERANKED]
    assert reranked == ["doc_001", "doc_003"]
    assert output.history[-1].cost.docs == 5


@pytest.mark.parametrize("part", ["estimator", "scheduler"])
def test_a_failing_policy_stops_the_loop_with_what_there_is(fakes, part):
    def fail(pool, _):
        if len(pool.reranked) == 5:
            raise RuntimeError("singular matrix")
        return pool.valuation(pool.base_scores) if part == "estimator" else batch(*pool.top_candidates(5))

    component = fakes.Estimator(fail) if part == "estimator" else fakes.Scheduler(choose=fail)
    output = fakes.controller(**{part: component}).run("q")
    assert (output.stop.reason, output.stop.source) == (f"{part}_failed", part)
    assert output.stop.details["error"] == "RuntimeError: singular matrix"
    assert len(output.ranking) == 20
    assert output.history[-1].cost.docs == 5


@pytest.mark.parametrize(
    "value",
    [
        lambda pool, _: {pool.doc_ids[0]: math.nan},
        lambda pool, _: {"stranger": 0.5},
        lambda pool, _: pool.valuation(np.full(len(pool), np.inf)),
        lambda pool, _: pool.valuation(np.zeros(3)),
        lambda pool, _: None,
        lambda pool, _: {pool.doc_ids[0]: "high"},
    ],
    ids=["NaN", "stranger", "inf", "wrong shape", "None", "text"],
)
def test_an_estimators_nonsense_is_refused_where_it_enters(fakes, value):
    output = fakes.controller(estimator=fakes.Estimator(value)).run("q")
    assert output.stop.reason == "estimator_failed"
    assert output.ranking == tuple(f"doc_{i:03d}" for i in range(20))
    assert len(output.documents) == 20


def test_a_plain_dict_is_as_good_as_a_valuation(fakes):
    by_dict = fakes.Estimator(lambda pool, _: {pool.doc_ids[i]: float(pool.base_scores[i]) for i in pool.eligible})
    rerankers = [fakes.Reranker(), fakes.Reranker()]
    first = fakes.controller(reranker=rerankers[0]).run("q")
    second = fakes.controller(reranker=rerankers[1], estimator=by_dict).run("q")
    assert rerankers[0].batches == rerankers[1].batches
    assert first.ranking == second.ranking


@pytest.mark.parametrize("part", ["estimator", "scheduler", "reranker", "price", "expander"])
def test_bad_input_is_never_swallowed(fakes, part):
    def bad(*_):
        raise ScoreTableError("no score for (q, doc_003)")

    parts = {
        "estimator": lambda: {"estimator": fakes.Estimator(bad)},
        "scheduler": lambda: {"scheduler": fakes.Scheduler(choose=bad)},
        "reranker": lambda: {"reranker": fakes.Reranker(script=[bad])},
        "price": lambda: {"reranker": fakes.Reranker(cost=bad)},
        "expander": lambda: {"expander": fakes.Expander(bad)},
    }
    with pytest.raises(ScoreTableError, match="doc_003"):
        fakes.controller(**parts[part]()).run("q")
