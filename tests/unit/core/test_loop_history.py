from __future__ import annotations

import math

import pytest

from ragtune import CostBudget, ScoredDocument

limits = CostBudget.only


def actions(output) -> list[str]:
    return [event.action for event in output.trace.events]


# -- the anytime history -----------------------------------------------------------------------------------------------


def test_the_history_has_a_step_before_any_batch_and_one_after_each(fakes):
    output = fakes.controller(budget=limits(max_reranker_docs=10)).run("q")
    assert [step.cost.docs for step in output.history] == [0, 5, 10]
    first_stage = tuple(f"doc_{i:03d}" for i in range(20))
    assert output.history[0].ranking == first_stage
    assert all(sorted(step.ranking) == sorted(first_stage) for step in output.history)
    assert output.history[-1].ranking == output.ranking


def test_history_costs_never_fall_and_failed_documents_keep_their_places(fakes):
    script = [RuntimeError("boom"), lambda items: {items[0].doc_id: 0.5}]
    output = fakes.controller(reranker=fakes.Reranker(script=script)).run("q")
    for unit in ("docs", "calls", "tokens", "latency_ms", "usd"):
        series = [getattr(step.cost, unit) for step in output.history]
        assert series == sorted(series)
    everything = {f"doc_{i:03d}" for i in range(20)}
    assert all(len(step.ranking) == 20 and set(step.ranking) == everything for step in output.history)
    assert output.history[1].ranking == output.history[0].ranking
    assert len(output.dropped) == 9
    assert output.ranking[:9] == tuple(sorted(output.dropped))  # by their estimates


def test_a_step_of_the_history_is_what_a_smaller_budget_would_have_given(fakes):
    whole = fakes.controller().run("q")
    for step in whole.history:
        cut = fakes.controller(budget=limits(max_reranker_docs=step.cost.docs)).run("q")
        assert cut.ranking == step.ranking


# -- skip_rerank -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [limits(max_reranker_docs=0), limits(max_reranker_docs=3)])
def test_skip_rerank_is_traced_when_the_budget_let_no_batch_run(fakes, budget):
    reranker = fakes.Reranker()
    output = fakes.controller(reranker=reranker, budget=budget).run("q")
    assert reranker.batches == []
    assert output.trace.find("skip_rerank", "controller")[0].details == {"reason": "budget_denied"}


# -- expansion ---------------------------------------------------------------------------------------------------------


def found(*ids: str, score: float = 0.4, **fields) -> list[ScoredDocument]:
    return [ScoredDocument(id=doc_id, score=score, token_count=10, **fields) for doc_id in ids]


def once(docs):
    answers = iter([docs])
    return lambda pool, limit: next(answers, [])


def test_what_an_expander_finds_goes_behind_is_charged_and_can_be_reranked(fakes):
    expander, reranker, assembler = fakes.Expander(once(found("new_b", "new_a"))), fakes.Reranker(), fakes.Assembler()
    output = fakes.controller(expander=expander, reranker=reranker, assembler=assembler).run("q")
    items = {item.doc_id: item for item in assembler.seen}
    assert (items["new_b"].initial_rank, items["new_a"].initial_rank) == (20, 21)
    assert items["new_b"].sources == {"graph": 0.4}
    assert output.final_budget_state["expanded_docs"] == 2
    assert {"new_a", "new_b"} <= {doc_id for ids in reranker.batches for doc_id in ids}
    assert output.trace.find("expand")[0].details["doc_ids"] == ["new_b", "new_a"]
    assert len(output.history[0].ranking) == 20
    assert len(output.history[1].ranking) == 22


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
