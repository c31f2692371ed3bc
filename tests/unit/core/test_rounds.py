"""Retrieval rounds, their union, and what rewriting a query costs."""

from __future__ import annotations

import math

import pytest
from pydantic import ValidationError

from ragtune import CostBudget, RetrievalDepths, ScoredDocument
from ragtune.core.component import RerankerFacts
from ragtune.core.errors import RetrievalError
from ragtune.core.interfaces import BaseReformulator
from ragtune.core.request.clock import VirtualClock
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.rounds import RetrievalRounds, aggregate
from ragtune.core.types import CostObject, ReformulationResult
from ragtune.estimators.posterior._first_stage import first_stage_evidence

PLAN = RetrievalDepths(original_query_depth=10, depth_per_reformulation=5, num_reformulations=2)


def context_of(**limits) -> RAGtuneContext:
    budget = CostBudget.only(**limits)
    return RAGtuneContext(query="query", query_id="q", tracker=budget.create_tracker())


def actions(context: RAGtuneContext) -> list[str]:
    return [event.action for event in context.trace.events]


def test_the_default_depths_are_the_specs():
    plan = RetrievalDepths()
    assert (plan.original_query_depth, plan.depth_per_reformulation, plan.num_reformulations) == (10, 5, 2)


@pytest.mark.parametrize(
    "fields",
    [
        {"original_query_depth": 0},
        {"num_reformulations": -1},
        {"original_query_depth": 4, "depth_per_reformulation": 5},
        {"depth": 3},
    ],
)
def test_a_bad_plan_is_refused(fields):
    with pytest.raises(ValidationError):
        RetrievalDepths(**fields)


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


@pytest.mark.parametrize(("limit", "wanted"), [(0, None), (1, 1), (2, 2), (3, 2)])
def test_no_more_rewrites_are_bought_than_rounds_are_left(fakes, limit, wanted):
    asked = []

    class Counting(BaseReformulator):
        def generate(self, context, first_round):
            asked.append(context.num_reformulations)
            return ["one", "two", "three"]

    context = context_of(max_retrieval_rounds=limit)
    rounds = RetrievalRounds(fakes.Retriever(fakes.docs(20)), Counting(), PLAN).run(context)
    assert asked == ([] if wanted is None else [wanted])
    assert len(rounds) == 1 + (wanted or 0)
    spent = context.tracker.snapshot()
    assert (spent["reformulations"], spent["retrieval_rounds"]) == (len(asked), wanted or 0)
    assert ("deny_retrieval_round" in actions(context)) == (limit == 0)


class Slow(BaseReformulator):
    def __init__(self, ms: float) -> None:
        self.ms = ms

    def generate(self, context, first_round):
        context.tracker.clock.advance(self.ms)
        return ["one"]


@pytest.mark.parametrize(
    ("limit", "ms", "denied"),
    [(0.0, 1.0, "deny_reformulation"), (100.0, 100.0, "deny_retrieval_round"), (100.0, 99.0, None)],
)
def test_no_rewriting_and_no_further_round_begins_once_the_time_is_up(fakes, limit, ms, denied):
    budget = CostBudget.only(max_latency_ms=limit)
    context = RAGtuneContext(query="query", query_id="q", tracker=budget.create_tracker(clock=VirtualClock()))
    rounds = RetrievalRounds(fakes.Retriever(fakes.docs(20)), Slow(ms), PLAN).run(context)
    assert [r.strategy for r in rounds] == (["original"] if denied else ["original", "rewrite_0"])
    denials = [event for event in context.trace.events if event.action.startswith("deny")]
    assert [(event.action, event.details["reason"]) for event in denials] == (
        [(denied, "latency_exceeded")] if denied else []
    )
    assert context.tracker.try_consume_expansion(1) is (denied is None)


unusable = pytest.mark.parametrize(
    "failure",
    [RuntimeError("index gone"), None, [ScoredDocument(id="bad", score=math.nan)], ["bad"]],
    ids=["raises", "None", "NaN", "no documents"],
)


@unusable
def test_a_failing_supplemental_round_is_traced_and_skipped(fakes, failure):
    retriever = fakes.Retriever({"query": fakes.docs(3), "one": failure, "two": fakes.docs(2, "two")})
    context = context_of()
    rounds = RetrievalRounds(retriever, fakes.Reformulator(["one", "two"]), PLAN).run(context)
    assert [r.strategy for r in rounds] == ["original", "rewrite_1"]
    assert context.trace.find("retrieval_failed")[0].details["round"] == "rewrite_0"
    assert len(aggregate(rounds)) == 5


@unusable
def test_a_failing_original_round_ends_the_request(fakes, failure):
    with pytest.raises(RetrievalError, match="retrieval failed for query 'q'"):
        RetrievalRounds(fakes.Retriever({"query": failure}), fakes.Reformulator(), PLAN).run(context_of())


def test_a_document_that_a_round_repeats_counts_once_and_the_trace_says_so(fakes):
    a, b = doc("a", 0.9), doc("b", 0.8)
    retriever = fakes.Retriever({"query": [a, b, a], "one": [b, b]})
    context = context_of()
    rounds = RetrievalRounds(retriever, fakes.Reformulator(["one"]), PLAN).run(context)
    assert [[d.id for d in r.candidates] for r in rounds] == [["a", "b"], ["b"]]
    assert [event.details["repeated"] for event in context.trace.find("retrieve")] == [1, 1]


def test_what_only_a_rewrite_found_and_the_reranker_cannot_score_is_no_candidate(fakes):
    class Table(fakes.Reranker):
        facts = RerankerFacts(can_score=lambda doc_id, context: doc_id != "two_000")

    found = {"query": fakes.docs(3), "one": [*fakes.docs(2, "two"), *fakes.docs(1)]}
    output = fakes.controller(
        retriever=fakes.Retriever(found), reformulator=fakes.Reformulator(["one"]), reranker=Table()
    ).run("query")
    assert set(output.ranking) == {"doc_000", "doc_001", "doc_002", "two_001"}
    assert output.trace.find("ineligible")[0].details == {"round": "rewrite_0", "count": 1}


def result(strategy: str, *docs: ScoredDocument) -> ReformulationResult:
    return ReformulationResult(original_query="q", reformulated_query=strategy, strategy=strategy, candidates=docs)


def doc(doc_id: str, score: float, **fields) -> ScoredDocument:
    return ScoredDocument(id=doc_id, score=score, **fields)


def test_ranks_follow_the_rounds_so_that_the_original_query_comes_first():
    pool = aggregate(
        [result("original", doc("b", 0.2), doc("a", 0.1)), result("rewrite_0", doc("new", 9.0), doc("a", 8.0))]
    )
    assert pool.doc_ids == ("b", "a", "new")
    assert [item.initial_rank for item in pool] == [0, 1, 2]
    assert pool["a"].sources.keys() == {"original", "rewrite_0"}
    assert pool["new"].sources.keys() == {"rewrite_0"}


def test_named_sources_keep_their_names_and_rewrites_prefix_theirs():
    pool = aggregate(
        [
            result("original", doc("a", 0.5, sources={"bm25": 7.0, "dense": 0.3})),
            result("rewrite_0", doc("a", 0.4, sources={"bm25": 600.0})),
        ]
    )
    assert pool["a"].sources == {"bm25": 7.0, "dense": 0.3, "rewrite_0/bm25": 7.0}


def originals(n: int, *, of: float = 20.0) -> list[ScoredDocument]:
    """Scores ``of``, ``of - 1``, ...: at (fractional) rank r stands ``of + 1 - r``."""
    return [doc(f"o{i:02d}", of - i) for i in range(n)]


@pytest.mark.parametrize(("factor", "offset"), [(0.001, 0.0), (1.0, -500.0), (1000.0, 7.0)])
def test_a_rewrites_scores_are_put_on_the_originals_scale_by_rank_alone(factor, offset):
    found = [doc(doc_id, factor * -i + offset) for i, doc_id in enumerate(("o04", "new", "o00"))]
    pool = aggregate([result("original", *originals(15)), result("rewrite_0", *found)])
    # o04: 1/5 + 0.05/1, so rank 4; new: 0.05/2, rank 40, beyond the end; o00: 1/1 + 0.05/3, the top.
    on_scale = {"o04": 17.0, "new": 6.0, "o00": 20.0}
    for doc_id, score in on_scale.items():
        assert pool[doc_id].retrieval_score == pytest.approx(score)
        assert pool[doc_id].sources["rewrite_0"] == pytest.approx(score)
        assert pool.base_scores[pool.roster.index[doc_id]] == pytest.approx(score)
    others = [d for d in originals(15) if d.id not in on_scale]
    assert [pool[d.id].retrieval_score for d in others] == [d.score for d in others]


@pytest.mark.parametrize("rewrites", [1, 2, 5])
def test_of_the_first_k_at_most_a_twentieth_was_found_by_rewrites_alone(rewrites):
    strangers = [[doc(f"r{i}-{j:02d}", 1000.0 - j) for j in range(50)] for i in range(rewrites)]
    rounds = [result(f"rewrite_{i}", *found) for i, found in enumerate(strangers)]
    pool = aggregate([result("original", *originals(50)), *rounds])
    best = [pool.doc_ids[i] for i in (-pool.retrieval_scores).argsort(kind="stable")[:50]]
    for k in range(1, 51):
        assert sum(doc_id.startswith("r") for doc_id in best[:k]) <= k / 20


def test_where_the_original_query_found_nothing_the_rewrites_order_stands():
    pool = aggregate([result("original"), result("rewrite_0", doc("b", 3.0), doc("a", 2.0))])
    assert [pool.doc_ids[i] for i in (-pool.retrieval_scores).argsort()] == ["b", "a"]
    assert all(0 < score <= 1 for score in pool.base_scores)


def test_first_stage_evidence_counts_a_stage_and_its_rewrites_once():
    rounds = [result("original", *originals(12)), result("rewrite_0", doc("new", 99.0), doc("o11", 98.0))]
    with_rewrite = first_stage_evidence(aggregate(rounds).entries)
    assert (with_rewrite.columns.shape, with_rewrite.weights.sum()) == ((13, 1), 1.0)
    # o11, at rank 12 and second of the rewrite, stands at 9.2; what the rewrite alone found, at 20.
    assert with_rewrite.pooled.argsort()[::-1][:11].tolist() == [*range(9), 11, 9]


def test_rewrites_whose_price_cannot_be_told_are_left_out(fakes):
    class Unpriced(fakes.Reformulator):
        def expected_cost(self, context, first_round):
            raise RuntimeError("no price")

    context = context_of()
    assert len(RetrievalRounds(fakes.Retriever(fakes.docs(20)), Unpriced(["one"]), PLAN).run(context)) == 1
    assert "no price" in context.trace.find("reformulation_failed")[0].details["error"]


def test_rewriting_that_fails_and_reports_nothing_is_charged_its_time_alone(fakes):
    class Failing(fakes.Reformulator):
        def expected_cost(self, context, first_round):
            return CostObject(tokens=100, latency_ms=50.0)

    tracker = CostBudget.unlimited().create_tracker(clock=VirtualClock())
    context = RAGtuneContext(query="query", query_id="q", tracker=tracker)
    RetrievalRounds(fakes.Retriever(fakes.docs(20)), Failing(RuntimeError("no model")), PLAN).run(context)
    assert tracker.spent() == CostObject(latency_ms=50.0)
