"""One request under several budgets gives what as many requests give, whatever its reranker does."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ragtune.core.batches.failures import FailurePolicy
from ragtune.core.interfaces import BaseRetriever
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.request.request import Request
from ragtune.core.types import ScoredDocument
from ragtune.data.corpus import Corpus, Document
from ragtune.estimators.baseline import BaselineEstimator
from ragtune.fusion.rrf import RRFFusion
from ragtune.retrievers.given import GivenRetriever
from ragtune.retrievers.hybrid import HybridRetriever
from ragtune.retrievers.signalled import SignalledRetriever
from ragtune.schedulers.greedy import GreedyScheduler


class Broken:
    """Scores by rank; a batch that holds one of the broken documents fails."""

    def __init__(self, broken: frozenset[int]) -> None:
        self.broken = broken

    def __call__(self, items: Any) -> dict[str, float]:
        if failing := sorted(self.broken & {item.initial_rank for item in items}):
            raise RuntimeError(f"no answer about {failing[0]}")
        return {item.doc_id: 1 / (2 + item.initial_rank) for item in items}


class Sparing(BaseRetriever):
    """Finds two documents for each that may be scored."""

    def retrieve(self, context: RAGtuneContext, top_k: int) -> list[ScoredDocument]:
        left = context.tracker.remaining_view().remaining_rerank_docs
        return list(context.candidates[: min(top_k, 2 * left)])


class SparingHybrid(HybridRetriever):
    """Reads the budget itself, whatever its members do."""

    reads_budget = True

    def retrieve(self, context: RAGtuneContext, top_k: int) -> list[ScoredDocument]:
        return Sparing().retrieve(context, top_k)


class SparingSignalled(SignalledRetriever):
    """The same of a first stage with signals."""

    reads_budget = True

    def retrieve(self, context: RAGtuneContext, top_k: int) -> list[ScoredDocument]:
        return Sparing().retrieve(context, top_k)


def test_a_first_stage_that_reads_the_budget_is_asked_under_each(fakes):
    signalled = SignalledRetriever(Sparing(), {}, RRFFusion())
    both = {"sparing": lambda _: Sparing(), "given": lambda _: GivenRetriever()}
    corpus = Corpus([Document(id="d", text="")])
    hybrid = HybridRetriever(corpus, both, RRFFusion())
    own_hybrid = SparingHybrid(corpus, {"given": lambda _: GivenRetriever()}, RRFFusion())
    own_signalled = SparingSignalled(GivenRetriever(), {}, RRFFusion())
    budgets = [CostBudget.only(max_reranker_docs=limit) for limit in (2, 5)]
    for retriever in (Sparing(), signalled, hybrid, own_hybrid, own_signalled):
        made = fakes.controller(estimator=BaselineEstimator(), scheduler=GreedyScheduler(1), retriever=retriever)
        made.rerankers["default"].recorded = True
        assert not made.shares_budgets
        request = Request("q", candidates=fakes.docs(20))
        together = made.run_under(request, budgets)
        alone = [made.run("q", budget, candidates=request.candidates) for budget in budgets]
        assert [output.ranking for output in together] == [output.ranking for output in alone]


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
