"""One request under several budgets gives what as many requests give, whatever its reranker does."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtune.core.batches.failures import FailurePolicy
from ragtune.core.interfaces import BaseEstimator, BaseExpander, BaseRetriever, BaseScheduler
from ragtune.core.policy.batching import propose
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.context import RAGtuneContext, Request
from ragtune.core.types import RemainingBudgetView, ScoredDocument
from ragtune.estimators.baseline import BaselineEstimator
from ragtune.fusion.rrf import RRFFusion
from ragtune.retrievers.given import GivenRetriever
from ragtune.retrievers.signalled import SignalledRetriever
from ragtune.schedulers.greedy import GreedyScheduler


class Broken:
    def __init__(self, broken: frozenset[int]) -> None:
        self.broken = broken

    def __call__(self, items: Any) -> dict[str, float]:
        if failing := sorted(self.broken & {item.initial_rank for item in items}):
            raise RuntimeError(f"no answer about {failing[0]}")
        return {item.doc_id: 1 / (2 + item.initial_rank) for item in items}


class Sparing(BaseRetriever):
    def retrieve(self, context: RAGtuneContext, top_k: int) -> list[ScoredDocument]:
        left = context.tracker.remaining_view().remaining_rerank_docs
        return list(context.candidates[: min(top_k, 2 * left)])


class Thrifty(BaseScheduler):
    def __init__(self, looks_at: str) -> None:
        self.looks_at = looks_at

    def select_batch(self, pool: Any, budget: RemainingBudgetView) -> Any:
        return propose(pool.top_candidates(2 if getattr(budget, self.looks_at) > 9 else 1), budget)


class Agreeable(BaseEstimator):
    def value(self, pool: Any, context: RAGtuneContext) -> Any:
        limit, rank = context.tracker.budget.max_reranker_docs, np.arange(len(pool)) / len(pool)
        return pool.valuation(rank if limit is None or limit > 9 else 1 - rank)


class Stingy(BaseExpander):
    def expand(self, pool: Any, context: RAGtuneContext, limit: int) -> list[ScoredDocument]:
        is_rich = context.tracker.remaining_view().remaining_rerank_docs > 9
        return [ScoredDocument(id="new", score=0.1)] * (is_rich and "new" not in pool)


@pytest.mark.parametrize(
    ("group", "part"),
    [
        ("retriever", Sparing()),
        ("retriever", SignalledRetriever(Sparing(), {}, RRFFusion())),
        ("scheduler", Thrifty("remaining_rerank_docs")),
        ("scheduler", Thrifty("remaining_usd")),
        ("estimator", Agreeable()),
        ("expander", Stingy()),
    ],
)
def test_where_a_part_looks_at_the_budget_each_budget_is_replayed_by_itself(fakes, group, part):
    usual = {"estimator": BaselineEstimator(), "scheduler": GreedyScheduler(1), "retriever": GivenRetriever()}
    made = fakes.controller(**(usual | {group: part}))
    made.rerankers["default"].recorded = True
    assert made.shares_budgets
    budgets = [CostBudget.only(max_reranker_docs=limit) for limit in (2, 5, 12)]
    request = Request("q", candidates=fakes.docs(20))
    together = made.run_under(request, budgets)
    alone = [made.run("q", budget, candidates=request.candidates) for budget in budgets]
    assert not made.shares_budgets
    assert [output.ranking for output in together] == [output.ranking for output in alone]
    assert [output.stop for output in together] == [output.stop for output in alone]


@given(
    broken=st.frozensets(st.integers(0, 19)),
    batch_size=st.integers(1, 7),
    in_a_row=st.integers(1, 3),
    unit=st.sampled_from(["max_reranker_docs", "max_reranker_calls", "max_tokens"]),
    limits=st.lists(st.integers(0, 22), min_size=1, max_size=5, unique=True),
)
def test_failures_count_under_every_budget(fakes, broken, batch_size, in_a_row, unit, limits):
    def controller() -> Any:
        made = fakes.controller(
            documents=fakes.docs(20),
            estimator=BaselineEstimator(),
            scheduler=GreedyScheduler(batch_size),
            reranker=fakes.Reranker(script=[Broken(broken)] * 400),
            failures=FailurePolicy(batches_in_a_row=in_a_row, requests_in_a_row=100),
        )
        made.rerankers["default"].recorded = True
        assert made.shares_budgets
        return made

    budgets = [CostBudget.only(**{unit: limit}) for limit in limits]
    together = controller().run_under(Request("q"), budgets)
    for output, budget in zip(together, budgets, strict=True):
        alone = controller().run("q", budget)
        assert output.ranking == alone.ranking
        assert output.stop == alone.stop
        assert (output.dropped, output.batches) == (alone.dropped, alone.batches)
        assert [event.details for event in output.trace.events] == [event.details for event in alone.trace.events]
