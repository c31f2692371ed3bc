"""Rerank stages asked about a test collection's documents."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import pytest

from ragtune import CostBudget
from ragtune.core.request.context import CostMeter
from ragtune.core.types import BatchProposal
from ragtune.estimators.baseline import BaselineEstimator
from ragtune.schedulers.greedy import GreedyScheduler
from ragtune.superprompt.reranking.base import BaseRerankStage
from ragtune.superprompt.reranking.budgeted import BudgetedRerankStage
from ragtune.superprompt.reranking.none import NoRerankStage
from ragtune.superprompt.reranking.top import TopRerankStage


def budgeted(reranker: Any, scheduler: Any = None, **options: Any) -> BudgetedRerankStage:
    chosen = scheduler or GreedyScheduler(batch_size=2)
    return BudgetedRerankStage(BaselineEstimator(), chosen, reranker, CostBudget.unlimited(), **options)


@pytest.mark.parametrize("make", [TopRerankStage, budgeted])
def test_the_querys_id_reaches_the_reranker(fakes: SimpleNamespace, make: Any) -> None:
    seen: list[str] = []
    reranker = fakes.Reranker(act=lambda context: seen.append(context.query_id))
    make(reranker).order("query", fakes.docs(3), CostMeter(), "q7")
    assert set(seen) == {"q7"}


def test_only_a_controller_has_a_history(fakes: SimpleNamespace) -> None:
    def outcome(stage: BaseRerankStage) -> Any:
        return stage.order("query", fakes.docs(4), CostMeter()).output

    assert outcome(TopRerankStage(fakes.Reranker())) is None
    assert [step.cost.docs for step in outcome(budgeted(fakes.Reranker())).history] == [0, 2, 4]


def test_a_dead_reranker_is_given_up_for_the_prompts_to_come_until_a_new_run_begins(fakes: SimpleNamespace) -> None:
    reranker = fakes.Reranker(script=[ConnectionError("refused")] * 99)
    policy = budgeted(reranker)

    def sent(docs: int) -> int:
        reranked = policy.order("query", fakes.docs(docs), CostMeter())
        assert set(reranked.ids) == {doc.id for doc in fakes.docs(docs)}
        return reranked.output.batches.sent

    assert [sent(docs) for docs in (7, 8, 9, 10)] == [3, 3, 3, 0]
    policy.forget_failures()
    assert sent(7) == 3


def test_each_thread_orders_its_own_candidates(fakes: SimpleNamespace) -> None:
    both = Barrier(2)
    policy = budgeted(fakes.Reranker(act=lambda context: both.wait(30)))

    def ordered(prefix: str) -> list[str]:
        return policy.order(prefix, fakes.docs(2, prefix), CostMeter()).ids

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(ordered, "ab")) == [["a_001", "a_000"], ["b_001", "b_000"]]


def test_no_reranking_keeps_the_order_and_costs_nothing(fakes: SimpleNamespace) -> None:
    meter = CostMeter()
    documents = fakes.docs(5)
    reranked = NoRerankStage().order("query", documents, meter)
    assert reranked.ids == [doc.id for doc in documents]
    assert (reranked.scores, meter.charged) == ({}, None)


def test_a_scheduler_may_choose_between_strategies(fakes: SimpleNamespace) -> None:
    def choose(pool: Any, budget: Any) -> BatchProposal | None:
        left = pool.top_candidates(2)
        return BatchProposal(doc_ids=left, strategy=budget.strategies[len(left) % 2]) if left else None

    cheap, dear = fakes.Reranker(), fakes.Reranker()
    stage = budgeted(cheap, fakes.Scheduler(choose=choose), rerankers={"dear": dear})
    stage.order("query", fakes.docs(3), CostMeter())
    assert (len(cheap.batches), len(dear.batches)) == (1, 1)
