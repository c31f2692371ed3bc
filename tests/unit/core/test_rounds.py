from __future__ import annotations

import math

import pytest
from pydantic import ValidationError

from ragtune import CostBudget, RetrievalPlan, ScoredDocument
from ragtune.core.context import RAGtuneContext
from ragtune.core.errors import DatasetError, RetrievalError
from ragtune.core.rounds import RetrievalRounds, aggregate
from ragtune.core.types import ReformulationResult

PLAN = RetrievalPlan(original_query_depth=10, depth_per_reformulation=5, num_reformulations=2)


def context_of(**limits) -> RAGtuneContext:
    budget = CostBudget.unlimited().model_copy(update=limits)
    return RAGtuneContext(query="query", query_id="q", tracker=budget.create_tracker())


def actions(context: RAGtuneContext) -> list[str]:
    return [event.action for event in context.trace.events]


# -- the plan ----------------------------------------------------------------------------------------------------------


def test_the_default_depths_are_the_specs():
    plan = RetrievalPlan()
    assert (plan.original_query_depth, plan.depth_per_reformulation, plan.num_reformulations) == (10, 5, 2)


@pytest.mark.parametrize(
    "fields",
    [
        {"original_query_depth": 0},
        {"depth_per_reformulation": 0},
        {"num_reformulations": -1},
        {"original_query_depth": 4, "depth_per_reformulation": 5},
        {"depth": 3},
    ],
)
def test_a_bad_plan_is_refused(fields):
    with pytest.raises(ValidationError):
        RetrievalPlan(**fields)


# -- rounds ------------------------------------------------------------------------------------------------------------


def test_each_rewrite_is_a_round_of_its_own_depth_and_name(fakes):
    retriever = fakes.Retriever(fakes.docs(20))
    context = context_of()
    rounds = RetrievalRounds(retriever, fakes.Reformulator(["one", "two", "three"]), PLAN).run(context)
    assert retriever.calls == [("original", "query", 10), ("rewrite_0", "one", 5), ("rewrite_1", "two", 5)]
    assert [(r.strategy, r.original_query, r.reformulated_query, len(r.candidates)) for r in rounds] == [
        ("original", "query", "query", 10),
        ("rewrite_0", "query", "one", 5),
        ("rewrite_1", "query", "two", 5),
    ]
    spent = context.tracker.snapshot()
    assert (spent["reformulations"], spent["retrieval_rounds"]) == (1, 2)


def test_rewrites_equal_to_the_original_or_each_other_or_blank_are_dropped(fakes):
    retriever = fakes.Retriever(fakes.docs(20))
    rewrites = ["QUERY", " query ", "One", "", "  ", "one", "ONE  ", "two"]
    RetrievalRounds(retriever, fakes.Reformulator(rewrites), PLAN).run(context_of())
    assert [query for _, query, _ in retriever.calls] == ["query", "One", "two"]


def test_an_inactive_reformulator_and_a_plan_without_rewrites_cost_nothing(fakes):
    for reformulator, plan in (
        (fakes.Reformulator(), PLAN),
        (fakes.Reformulator(["one"]), PLAN.model_copy(update={"num_reformulations": 0})),
    ):
        context = context_of(max_reformulations=0)
        rounds = RetrievalRounds(fakes.Retriever(fakes.docs(20)), reformulator, plan).run(context)
        assert len(rounds) == 1
        assert reformulator.calls == 0
        assert actions(context) == ["retrieve"]


def test_a_denied_reformulation_is_not_called(fakes):
    reformulator = fakes.Reformulator(["one"])
    context = context_of(max_reformulations=0)
    rounds = RetrievalRounds(fakes.Retriever(fakes.docs(20)), reformulator, PLAN).run(context)
    assert (len(rounds), reformulator.calls) == (1, 0)
    assert actions(context) == ["retrieve", "deny_reformulation"]


def test_rounds_go_as_far_as_their_budget(fakes):
    retriever = fakes.Retriever(fakes.docs(20))
    context = context_of(max_retrieval_rounds=1)
    rounds = RetrievalRounds(retriever, fakes.Reformulator(["one", "two"]), PLAN).run(context)
    assert [r.strategy for r in rounds] == ["original", "rewrite_0"]
    assert actions(context)[-1] == "deny_retrieval_round"
    assert context.tracker.snapshot()["retrieval_rounds"] == 1


def _breaks_off():
    yield "one"
    raise OSError("connection lost")


@pytest.mark.parametrize(
    "rewrites",
    [RuntimeError("no model"), None, [None], [7], 3, _breaks_off()],
    ids=["raises", "None", "[None]", "[7]", "3", "generator breaks off"],
)
def test_a_failing_reformulator_leaves_the_original_results(fakes, rewrites):
    context = context_of()
    rounds = RetrievalRounds(fakes.Retriever(fakes.docs(20)), fakes.Reformulator(rewrites), PLAN).run(context)
    assert [r.strategy for r in rounds] == ["original"]
    failed = context.trace.find("reformulation_failed")
    assert len(failed) == 1
    assert failed[0].details["error"]


def not_finite() -> list[ScoredDocument]:
    return [ScoredDocument(id="bad", score=math.nan)]


@pytest.mark.parametrize("failure", [RuntimeError("index gone"), not_finite(), None], ids=["raises", "NaN", "None"])
def test_a_failing_supplemental_round_is_traced_and_skipped(fakes, failure):
    retriever = fakes.Retriever({"query": fakes.docs(3), "one": failure, "two": fakes.docs(2, "two")})
    context = context_of()
    rounds = RetrievalRounds(retriever, fakes.Reformulator(["one", "two"]), PLAN).run(context)
    assert [r.strategy for r in rounds] == ["original", "rewrite_1"]
    assert context.trace.find("retrieval_failed")[0].details["round"] == "rewrite_0"
    assert len(aggregate(rounds)) == 5


@pytest.mark.parametrize("failure", [RuntimeError("index gone"), not_finite(), None], ids=["raises", "NaN", "None"])
def test_a_failing_original_round_ends_the_request(fakes, failure):
    with pytest.raises(RetrievalError, match="retrieval failed for query 'q'"):
        RetrievalRounds(fakes.Retriever({"query": failure}), fakes.Reformulator(), PLAN).run(context_of())


@pytest.mark.parametrize("where", ["original", "rewrite", "reformulator"])
def test_bad_input_is_never_swallowed(fakes, where):
    bad = DatasetError("no such document")
    answers = {"query": bad if where == "original" else fakes.docs(3), "one": bad if where == "rewrite" else []}
    reformulator = fakes.Reformulator(bad if where == "reformulator" else ["one"])
    with pytest.raises(DatasetError, match="no such document"):
        RetrievalRounds(fakes.Retriever(answers), reformulator, PLAN).run(context_of())


# -- the union ---------------------------------------------------------------------------------------------------------


def result(strategy: str, *docs: ScoredDocument) -> ReformulationResult:
    return ReformulationResult(original_query="q", reformulated_query=strategy, strategy=strategy, candidates=docs)


def doc(doc_id: str, score: float, **fields) -> ScoredDocument:
    return ScoredDocument(id=doc_id, score=score, **fields)


def test_ranks_follow_the_rounds_so_that_the_original_query_comes_first():
    pool = aggregate(
        [
            result("original", doc("b", 0.2), doc("a", 0.1)),
            result("rewrite_0", doc("new", 9.0), doc("a", 8.0)),
        ]
    )
    assert pool.doc_ids == ("b", "a", "new")
    assert [item.initial_rank for item in pool] == [0, 1, 2]
    assert pool["a"].sources == {"original": 0.1, "rewrite_0": 8.0}
    assert pool["a"].retrieval_score == 0.1
    assert pool.base_scores.tolist() == [0.2, 8.0, 9.0]


def test_named_sources_keep_their_names_and_rewrites_prefix_theirs():
    pool = aggregate(
        [
            result("original", doc("a", 0.5, sources={"bm25": 7.0, "dense": 0.3})),
            result("rewrite_0", doc("a", 0.4, sources={"bm25": 6.0})),
        ]
    )
    assert pool["a"].sources == {"bm25": 7.0, "dense": 0.3, "rewrite_0/bm25": 6.0}


def test_a_document_twice_in_one_round_keeps_its_best_score_and_first_rank():
    pool = aggregate([result("original", doc("a", 0.2), doc("b", 0.1), doc("a", 0.9))])
    assert pool.doc_ids == ("a", "b")
    assert pool["a"].sources == {"original": 0.9}


def test_nothing_found_is_an_empty_pool():
    assert len(aggregate([result("original")])) == 0


def test_the_pool_does_not_write_into_the_retrievers_documents():
    found = doc("a", 0.5, sources={"bm25": 7.0}, metadata={"k": 1})
    pool = aggregate([result("original", found), result("rewrite_0", doc("a", 0.4))])
    pool["a"].metadata["k"] = 2
    assert found.sources == {"bm25": 7.0}
    assert found.metadata == {"k": 1}
