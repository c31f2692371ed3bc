import json
import math

import numpy as np
import pytest

from ragtune import CostBudget, ScoredDocument
from ragtune.assemblers.greedy import GreedyAssembler
from ragtune.core.batches.failures import FailurePolicy
from ragtune.core.errors import InputError, NotAskedError, RequestOverError, ScoreTableError
from ragtune.core.policy.batching import propose
from ragtune.core.types import BatchProposal, CostObject
from ragtune.llm.errors import ServiceError, no_scores
from ragtune.schedulers.cascade import CascadeScheduler

limits = CostBudget.only


def actions(output) -> list[str]:
    return [event.action for event in output.trace.events]


def batch(*doc_ids: str, **fields) -> BatchProposal:
    return BatchProposal(doc_ids=list(doc_ids), **fields)


def ids(*numbers: int) -> list[str]:
    return [f"doc_{number:03d}" for number in numbers]


def good(items) -> dict[str, float]:
    return {item.doc_id: (item.initial_rank + 1) / 1000 for item in items}


class SpeechlessError(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize(
    "step",
    [
        *(RuntimeError("out of memory"), SpeechlessError()),
        *(lambda items: {item.doc_id: math.inf for item in items}, lambda items: {}, None),
    ],
    ids=["raises", "raises without words", "inf", "nothing", "None"],
)
def test_a_failed_batch_keeps_its_places_and_the_run_goes_on(fakes, step):
    reranker = fakes.Reranker(script=[step])
    output = fakes.controller(reranker=reranker).run("q")
    assert list(output.dropped) == reranker.batches[0] == ids(0, 1, 2, 3, 4)
    assert output.ranking[:5] == tuple(ids(0, 1, 2, 3, 4))  # by the estimates, as before they were sent
    assert {doc.id for doc in output.documents} == set(output.ranking) == set(ids(*range(20)))
    assert (output.batches.sent, output.batches.failed) == (4, 1)
    assert output.batches.first_error == output.dropped["doc_000"]
    assert (output.history[-1].cost.docs, output.history[-1].cost.calls) == (20, 4)
    assert output.stop.reason == "pool_exhausted"
    drop = output.trace.find("drop")[0].details
    assert drop == {"doc_ids": ids(0, 1, 2, 3, 4), "error": output.dropped["doc_000"]}
    assert "charge_failure" in actions(output)


@pytest.mark.parametrize(("returned", "kind"), [(None, "NoneType"), (ids(0, 1, 2, 3, 4), "list")])
def test_a_reranker_that_returns_no_scores_by_id_is_told_what_is_allowed(fakes, returned, kind):
    output = fakes.controller(reranker=fakes.Reranker(script=[lambda items: returned])).run("q")
    assert output.batches.first_error == (
        f"TypeError: rerank() returned {kind}: allowed is a dict of scores by document id"
    )


@pytest.mark.parametrize("bad", [math.nan, None, "0.5", 7.3, True])
def test_a_bad_score_costs_the_one_document_that_it_belongs_to(fakes, bad):
    reranker = fakes.Reranker(script=[lambda items: good(items) | {"doc_002": bad}])
    output = fakes.controller(reranker=reranker, budget=limits(max_reranker_docs=5)).run("q")
    assert list(output.dropped) == ids(2)
    assert "no number in [0, 1]" in output.dropped["doc_002"]
    assert output.trace.find("rerank")[0].details["scores"] == {f"doc_00{i}": (i + 1) / 1000 for i in (0, 1, 3, 4)}
    assert output.ranking[0] == "doc_002"  # by its estimate
    assert output.batches.failed == 0


def test_attempts_count_as_calls_documents_and_time(fakes):
    reranker = fakes.Reranker(
        script=[RuntimeError("boom")] * 9, cost=lambda items: CostObject(tokens=100, latency_ms=10.0, usd=0.1)
    )
    output = fakes.controller(reranker=reranker, budget=limits(max_reranker_calls=2)).run("q")
    assert len(reranker.batches) == 2
    cost = output.history[-1].cost
    assert (cost.calls, cost.docs, cost.latency_ms) == (2, 10, 20.0)
    assert (cost.tokens, cost.usd) == (0, 0.0)  # the server reported none
    assert output.stop.message == "rerank_calls: 2 of 2 used"


def test_a_failed_batch_costs_the_tokens_and_the_money_that_were_reported(fakes):
    for charge_failures in (False, True):
        reranker = fakes.Reranker(
            script=[RuntimeError("cut off")] * 2, act=lambda ctx: ctx.meter.charge(CostObject(tokens=30, usd=0.5))
        )
        budget = limits(charge_failures=charge_failures, max_reranker_docs=10)
        output = fakes.controller(reranker=reranker, budget=budget).run("q")
        spent = output.history[2].cost
        assert (spent.tokens, spent.usd, spent.docs) == ((60, 1.0, 10) if charge_failures else (0, 0.0, 0))
        action, key = ("charge_failure", "cost") if charge_failures else ("refund_rerank", "wasted")
        assert output.trace.find(action)[0].details[key]["tokens"] == 30


def test_a_dead_reranker_is_given_up_and_the_answer_is_the_first_stages(fakes):
    reranker = fakes.Reranker(script=[ConnectionError(f"refused {i}") for i in range(99)])
    output = fakes.controller(reranker=reranker, failures=FailurePolicy(batches_in_a_row=2)).run("q")
    assert len(reranker.batches) == 2
    assert set(output.ranking) == {doc.id for doc in output.documents} == set(ids(*range(20)))
    assert output.ranking == tuple(ids(*range(20)))
    assert output.stop.reason == "strategy_closed"
    assert output.stop.details == {"strategy": "default", "error": "ConnectionError: refused 0", "failed": 2, "sent": 2}
    assert "refused 0" in output.stop.message
    assert output.trace.find("close_strategy")[0].details["error"] == "ConnectionError: refused 0"


def test_a_batch_that_succeeds_starts_the_count_of_failures_again(fakes):
    reranker = fakes.Reranker(script=[RuntimeError(), good, RuntimeError(), good])
    output = fakes.controller(reranker=reranker, failures=FailurePolicy(batches_in_a_row=2)).run("q")
    assert (output.batches.sent, output.batches.failed, output.stop.reason) == (4, 2, "pool_exhausted")


def test_after_some_dead_requests_the_strategy_is_closed_for_the_run_until_it_is_tried_again(fakes, machine):
    reranker = fakes.Reranker(script=[ConnectionError("refused")] * 6)
    policy = FailurePolicy(batches_in_a_row=2, requests_in_a_row=2, retry_after_s=0.2)
    controller = fakes.controller(reranker=reranker, failures=policy)
    outputs = [controller.run(query) for query in "abcd"]
    assert [output.batches.sent for output in outputs] == [2, 2, 0, 0]
    assert all(output.stop.reason == "strategy_closed" for output in outputs)
    assert outputs[3].batches.first_error == "ConnectionError: refused"
    assert outputs[3].ranking == tuple(ids(*range(20)))
    machine.work(250.0)
    assert controller.run("e").batches.sent == 2
    assert controller.run("f").batches.sent == 0
    machine.work(250.0)
    assert controller.run("g").batches.failed == 0
    assert controller.run("h").batches.sent == 4


@pytest.mark.parametrize(
    "error", [NotAskedError("too many wait"), no_scores("late", [ServiceError("no answer", "deadline", attempts=1)])]
)
def test_a_failure_that_tells_nothing_of_the_reranker_ends_its_request_and_closes_nothing_for_the_run(fakes, error):
    reranker = fakes.Reranker(script=[error] * 4)
    policy = FailurePolicy(batches_in_a_row=2, requests_in_a_row=2, retry_after_s=60.0)
    controller = fakes.controller(reranker=reranker, failures=policy)
    assert [controller.run(query).batches.failed for query in "abc"] == [2, 2, 0]
    assert controller.closed == {}


def test_what_a_reranker_paid_before_it_refused_a_batch_is_charged(fakes):
    class Paying(fakes.Reranker):
        def rerank(self, items, context, strategy):
            context.meter.charge(CostObject(tokens=7, calls=1))
            raise NotAskedError("too many wait")

    output = fakes.controller(reranker=Paying(), failures=FailurePolicy(batches_in_a_row=1)).run("q")
    spent = output.history[-1].cost
    assert (spent.docs, spent.calls, spent.tokens) == (0, 1, 7)


def test_a_request_whose_reranker_takes_no_more_batches_ends_and_documents_that_were_not_chosen_have_not_failed(fakes):
    reranker = fakes.Reranker(script=[good] + [RequestOverError("the server is being closed")] * 4)
    policy = FailurePolicy(requests_in_a_row=1, retry_after_s=60.0)
    controller = fakes.controller(reranker=reranker, failures=policy, budget=limits(max_reranker_docs=12))
    output = controller.run("q")
    assert (output.batches.sent, output.batches.failed, output.stop.reason) == (2, 1, "strategy_closed")
    assert set(output.dropped) == set(ids(*range(5, 10)))
    assert "the server is being closed" in output.stop.message
    assert output.history[-1].cost.docs == 5
    assert controller.loop.batches.closed == {}


def test_a_scheduler_that_will_not_hear_that_a_strategy_is_closed_is_stopped(fakes):
    reranker = fakes.Reranker(script=[RuntimeError("dead")] * 99)
    scheduler = fakes.Scheduler(batch_size=1)
    output = fakes.controller(reranker=reranker, scheduler=scheduler).run("q")
    assert (len(reranker.batches), output.stop.reason) == (3, "strategy_closed")
    assert scheduler.views[-1].closed == ("default",)


def test_a_cascade_whose_default_model_is_dead_lets_the_other_one_take_over(fakes):
    strong, weak = fakes.Reranker(), fakes.Reranker(script=[RuntimeError("dead")] * 99)
    scheduler = CascadeScheduler({"strong": 9}, batch_size=2, escalate_above=1.0, min_docs=10)
    controller = fakes.controller(reranker={"default": weak, "strong": strong}, scheduler=scheduler)
    outputs = [controller.run(query) for query in "abcdef"]
    assert len(weak.batches) == 9  # three in a row a request, and three requests in a row close it for the run
    assert [sum(map(len, strong.batches)), *(output.history[-1].cost.docs for output in outputs)] == [
        54,
        *[15] * 3,
        *[9] * 3,
    ]
    assert {output.stop.reason for output in outputs} == {"strategy_closed"}  # within its limit


@pytest.mark.parametrize("price", [lambda items: 1 / 0, lambda items: None])
def test_a_price_that_cannot_be_told_is_traced_once_and_the_batch_runs(fakes, price):
    output = fakes.controller(reranker=fakes.Reranker(cost=price), budget=limits(max_reranker_docs=10)).run("q")
    assert output.history[-1].cost == CostObject(docs=10, calls=2)
    assert len(output.trace.find("expected_cost_failed")) == 1


def test_a_component_may_not_spend(fakes):
    def settle(context):
        context.tracker.settle(CostObject(docs=5, calls=1), CostObject())

    output = fakes.controller(reranker=fakes.Reranker(act=settle), budget=limits(max_reranker_docs=5)).run("q")
    assert output.final_budget_state["rerank_docs"] == 5
    assert "ControllerOnlyError" in output.batches.first_error


ODDITIES = {
    "half a surrogate pair in an error": lambda fakes: {"reranker": fakes.Reranker(script=[RuntimeError("\ud83d")])},
    "half a surrogate pair in a text": lambda fakes: {
        "documents": [doc.model_copy(update={"content": f"text \ud83d {doc.id}"}) for doc in fakes.docs(20)]
    },
    "numbers of NumPy's": lambda fakes: {
        "documents": [doc.model_copy(update={"metadata": {"n": np.int64(4)}}) for doc in fakes.docs(20)],
        "reranker": fakes.Reranker(act=lambda c: c.trace.add("reranker", "look", at=object(), n=np.int64(3))),
    },
}


@pytest.mark.parametrize("parts", ODDITIES.values(), ids=ODDITIES)
def test_nothing_odd_spoils_the_output(fakes, parts):
    output = fakes.controller(assembler=GreedyAssembler(), **parts(fakes)).run("q")
    assert set(output.ranking) == set(ids(*range(20)))
    assert json.loads(output.model_dump_json())["history"]


@pytest.mark.parametrize("asked", [{"query": "\ud83d"}, {"query": 5}, {"query": "q", "query_id": "\ud83d"}])
def test_a_query_that_is_no_text_is_refused(fakes, asked):
    with pytest.raises(InputError, match="allowed is a text of valid Unicode"):
        fakes.controller().run(**asked)


def test_further_calls_that_a_reranker_makes_are_charged(fakes):
    reranker = fakes.Reranker(act=lambda ctx: ctx.meter.charge(CostObject(calls=7)))
    output = fakes.controller(reranker=reranker, budget=limits(max_reranker_calls=8)).run("q")
    assert output.final_budget_state["rerank_calls"] == 14
    assert len(reranker.batches) == 2


def test_documents_whose_retriever_counts_no_tokens_are_counted(fakes):
    documents = [ScoredDocument(id=f"d{i}", content="word " * 40, score=1.0 - i / 20) for i in range(20)]
    output = fakes.controller(documents=documents, assembler=GreedyAssembler(), budget=limits(max_tokens=100)).run("q")
    assert len(output.documents) == 2
    assert output.final_budget_state["tokens"] == 80


@pytest.mark.parametrize("limit", ["max_cost_usd", "max_flops", "max_search_units", "max_joules", "max_tokens"])
def test_what_is_used_up_stops_nothing_that_is_free_of_it(fakes, limit):
    output = fakes.controller(budget=limits(**{limit: 0})).run("q")
    assert output.final_budget_state["rerank_docs"] == 20


def test_a_cascade_goes_on_where_the_strong_model_has_used_up_the_search_units(fakes):
    billed, free = fakes.Reranker(cost=lambda items: CostObject(search_units=1)), fakes.Reranker()
    scheduler = CascadeScheduler({"billed": 99}, batch_size=5, escalate_above=0.0, min_docs=0)
    parts = {"reranker": {"default": free, "billed": billed}, "assembler": fakes.Assembler()}
    output = fakes.controller(**parts, scheduler=scheduler, budget=limits(max_search_units=2)).run("q")
    assert (len(billed.batches), len(free.batches)) == (2, 2)
    scored = {item.doc_id: item.reranker_strategy for item in parts["assembler"].seen}
    assert [scored[doc_id] for doc_id in (*billed.batches[0], *free.batches[0])] == ["billed"] * 5 + ["default"] * 5
    assert (output.final_budget_state["search_units"], output.stop.reason) == (2, "pool_exhausted")


def test_the_stop_is_about_the_document_that_was_wanted(fakes):
    cost = lambda items: CostObject(tokens=sum(1000 if it.doc_id == "doc_007" else 10 for it in items))  # noqa: E731
    scheduler = fakes.Scheduler(choose=lambda pool, budget: propose(["doc_007"], budget))
    budget = limits(max_tokens=100, assembly_token_buffer=0)
    output = fakes.controller(reranker=fakes.Reranker(cost=cost), scheduler=scheduler, budget=budget).run("q")
    assert output.stop.message == "the next batch needs 1000 more tokens; tokens: 0 of 100 used"


@pytest.mark.parametrize("spends", [True, False])
def test_the_token_budget_holds_whatever_an_assembler_does(fakes, spends):
    class Generous(fakes.Assembler):
        def assemble(self, items, context):
            if spends:
                context.tracker.try_consume_tokens(15)
            documents = [ScoredDocument(id=item.doc_id, token_count=0, content=item.content) for item in items]
            return [*documents, documents[0], ScoredDocument(id="stranger", content="x")]

    budget = limits(max_tokens=40, assembly_token_buffer=40)
    output = fakes.controller(assembler=Generous(), budget=budget).run("q")
    assert [doc.id for doc in output.documents] == ids(0, 1, 2, 3)
    assert output.final_budget_state["tokens"] <= 40
    refused = [event.details["doc_id"] for event in output.trace.find("refuse_document")]
    assert refused == [*ids(*range(4, 20)), "doc_000", "stranger"]


@pytest.mark.parametrize("returned", [RuntimeError("template"), None, ["doc_000"], 5])
def test_an_assembler_that_fails_leaves_the_best_documents_that_fit(fakes, returned):
    class Broken(fakes.Assembler):
        def assemble(self, items, context):
            context.tracker.try_consume_tokens(25)
            if isinstance(returned, Exception):
                raise returned
            return returned

    budget = limits(max_tokens=35, max_reranker_docs=0)
    output = fakes.controller(assembler=Broken(), budget=budget).run("q")
    assert [doc.id for doc in output.documents] == ids(0, 1, 2)
    assert output.final_budget_state["tokens"] == 30
    assert output.trace.find("assembly_failed")


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
