"""Rules of pool, plan, budget and output, and the first scenarios, on the real controller."""

import pytest
from pydantic import ValidationError

from ragtune import CostBudget, RAGtuneController, RetrievalDepths
from ragtune.assemblers.greedy import GreedyAssembler
from ragtune.core.types import BatchProposal, CostObject
from ragtune.estimators.baseline import BaselineEstimator
from ragtune.reformulators.identity import IdentityReformulator
from ragtune.retrievers.in_memory import InMemoryRetriever
from ragtune.schedulers.one_shot import OneShotScheduler

UNLIMITED = CostBudget.unlimited()


def test_invariant_4_budget_view_fairness(fakes):
    def choose(pool, budget):
        with pytest.raises(AttributeError):
            budget.remaining_rerank_docs = 10**6
        free = CostObject()
        return BatchProposal(doc_ids=pool.top_candidates(4), expected_cost=free)

    scheduler = fakes.Scheduler(choose=choose)
    output = fakes.controller(scheduler=scheduler, budget=UNLIMITED.model_copy(update={"max_reranker_docs": 8})).run(
        "q"
    )
    assert [view.remaining_rerank_docs for view in scheduler.views] == [8, 4]
    assert output.final_budget_state["rerank_docs"] == 8
    assert output.final_budget_state["rerank_calls"] == 2


def test_invariant_7_no_double_counting(fakes):
    script = [lambda items: {item.doc_id: 0.5 for item in items} | {"doc_000": 0.9, "doc_019": 0.9}]
    reranker = fakes.Reranker(script=[lambda items: {item.doc_id: 0.25 for item in items}, *script])
    assembler = fakes.Assembler()
    output = fakes.controller(
        reranker=reranker, assembler=assembler, budget=UNLIMITED.model_copy(update={"max_reranker_docs": 10})
    ).run("q")
    scores = {item.doc_id: item.reranker_score for item in assembler.seen}
    assert scores["doc_000"] == 0.25
    assert scores["doc_019"] is None
    assert scores["doc_005"] == 0.5
    assert output.dropped == {}
    assert output.trace.find("foreign_scores")[0].details["doc_ids"] == ["doc_000", "doc_019"]


@pytest.fixture
def doc_pool(fakes):
    return fakes.docs(100)


@pytest.fixture
def run(fakes, doc_pool):
    def run(**limits):
        reranker = fakes.Reranker()
        controller = RAGtuneController(
            retriever=InMemoryRetriever(doc_pool),
            reformulator=IdentityReformulator(),
            estimator=BaselineEstimator(),
            scheduler=OneShotScheduler(),
            reranker=reranker,
            assembler=GreedyAssembler(ordering="reranked_first"),
            budget=CostBudget.only(**limits),
            plan=RetrievalDepths(original_query_depth=10),
        )
        return controller.run("text"), reranker

    return run


def test_happy_path(run):
    output, reranker = run()
    assert len(reranker.batches) == 1
    assert [doc.id for doc in output.documents] == list(reversed(reranker.batches[0]))
    assert output.trace.find("consume_rerank", "budget")


def test_reranker_skip(run):
    output, reranker = run(max_reranker_docs=0)
    assert reranker.batches == []
    assert [doc.id for doc in output.documents] == [f"doc_{i:03d}" for i in range(10)]
    skipped = output.trace.find("skip_rerank")
    assert [event.details["reason"] for event in skipped] == ["budget_denied"]


def test_token_limit(run):
    output, _ = run(max_tokens=25)
    assert len(output.documents) == 2
    assert output.final_budget_state["tokens"] == 20


def test_rule_1_originality_bias(fakes):
    with pytest.raises(ValidationError, match="the original query stays the primary source"):
        RetrievalDepths(original_query_depth=5, depth_per_reformulation=6)
    retriever = fakes.Retriever({"q": fakes.docs(9, "orig"), "one": fakes.docs(9, "one"), "two": fakes.docs(9, "two")})
    plan = RetrievalDepths(original_query_depth=4, depth_per_reformulation=2)
    output = fakes.controller(
        retriever=retriever,
        reformulator=fakes.Reformulator(["one", "two"]),
        plan=plan,
        budget=CostBudget(max_reranker_docs=0),
    ).run("q")
    assert retriever.calls == [("original", "q", 4), ("rewrite_0", "one", 2), ("rewrite_1", "two", 2)]
    assert len(output.ranking) == 8


def test_rule_2_deduplication(fakes):
    shared, new = fakes.docs(3), fakes.docs(1, "new")
    again = [doc.model_copy(update={"score": 0.25}) for doc in (shared[2], *new)]
    assembler = fakes.Assembler()
    fakes.controller(
        retriever=fakes.Retriever({"q": shared, "one": again}),
        reformulator=fakes.Reformulator(["one", "Q", "one "]),
        assembler=assembler,
    ).run("q")
    items = {item.doc_id: item for item in assembler.seen}
    assert list(items) == ["doc_000", "doc_001", "doc_002", "new_000"]
    assert items["doc_000"].sources == {"original": shared[0].score}
    # Every round is on the original query's scale: see aggregate.
    assert items["doc_002"].sources == {"original": shared[2].score, "rewrite_0": pytest.approx(0.464, abs=0.001)}
    assert items["new_000"].sources == {"rewrite_0": shared[2].score}
    assert [item.initial_rank for item in items.values()] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("limits", "rounds", "denied"),
    [
        ({"max_reformulations": 1, "max_retrieval_rounds": 2}, 2, None),
        ({"max_reformulations": 1, "max_retrieval_rounds": 1}, 1, None),
        ({"max_reformulations": 0, "max_retrieval_rounds": 0}, 0, "deny_retrieval_round"),
        ({"max_reformulations": 0, "max_retrieval_rounds": 2}, 0, "deny_reformulation"),
    ],
)
def test_rule_3_budget_awareness(fakes, limits, rounds, denied):
    output = fakes.controller(reformulator=fakes.Reformulator(["one", "two"]), budget=CostBudget(**limits)).run("q")
    state = output.final_budget_state
    assert (state["reformulations"], state["retrieval_rounds"]) == (limits["max_reformulations"], rounds)
    assert len(output.trace.find("consume_reformulation")) == limits["max_reformulations"]
    assert len(output.trace.find("consume_retrieval_round")) == rounds
    denials = [event.action for event in output.trace.events if event.action.startswith("deny_re")]
    assert [action for action in denials if action != "deny_rerank"] == ([denied] if denied else [])


@pytest.mark.parametrize("failure", [RuntimeError("the model timed out"), None, [None], "a text"])
def test_rule_4_graceful_degradation(fakes, failure):
    plain = fakes.controller().run("q")
    degraded = fakes.controller(reformulator=fakes.Reformulator(failure)).run("q")
    assert degraded.ranking == plain.ranking
    assert [doc.id for doc in degraded.documents] == [doc.id for doc in plain.documents]
    assert len(degraded.trace.find("reformulation_failed", "controller")) == 1
