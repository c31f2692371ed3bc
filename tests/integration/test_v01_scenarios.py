"""The three scenarios of rule H4, on the real controller and real components around the fake reranker."""

from __future__ import annotations

import pytest

from ragtune import CostBudget, RAGtuneController, RetrievalPlan
from ragtune.assemblers.greedy import GreedyAssembler
from ragtune.estimators.baseline import BaselineEstimator
from ragtune.reformulators.identity import IdentityReformulator
from ragtune.retrievers.in_memory import InMemoryRetriever
from ragtune.schedulers.one_shot import OneShotScheduler


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
            plan=RetrievalPlan(original_query_depth=10),
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
