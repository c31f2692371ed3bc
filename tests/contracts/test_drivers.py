"""Whatever the policy, and whatever drives it, a query beside others gets the answer that it gets alone."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any

from ragtune import CostBudget, RAGtuneController
from ragtune.assemblers.greedy import GreedyAssembler
from ragtune.core.component import RerankerFacts
from ragtune.core.interfaces import BaseReranker
from ragtune.core.output import ControllerOutput
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import RAGtuneContext, Request
from ragtune.core.rounds import RetrievalDepths
from ragtune.estimators.baseline import BaselineEstimator
from ragtune.reformulators.identity import IdentityReformulator
from ragtune.retrievers.given import GivenRetriever
from ragtune.schedulers.greedy import GreedyScheduler
from ragtune.schedulers.windows import WindowsScheduler
from ragtune.services.batching import SharedCalls
from ragtune.testing import WORLDS

PLAIN = WORLDS["plain"]()
BUDGET, PLAN = CostBudget.only(max_reranker_docs=7), RetrievalDepths(num_reformulations=0)


class ByQuery(BaseReranker):
    """Every query likes other documents, and one query finds nobody there."""

    facts = RerankerFacts(is_recorded=True)

    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        number = int(context.query.split()[0])
        if number == 4:
            raise OSError("no host")
        return {item.doc_id: (int(item.doc_id[1:]) * (2 * number + 3) % 11) / 10 for item in items}


def requests() -> list[Request]:
    ids = PLAIN.corpus.doc_ids
    found = [[PLAIN.corpus.scored(doc_id, 9.0 - i) for i, doc_id in enumerate(ids[n : 3 * n + 4])] for n in range(6)]
    return [Request(f"{n} salt bread", candidates=documents) for n, documents in enumerate(found)]


def answer(output: ControllerOutput) -> Any:
    ranked = [(document.id, document.score, document.reranker_score) for document in output.documents]
    events = [(event.component, event.action, event.details) for event in output.trace.events]
    return ranked, output.stop, output.final_budget_state, output.dropped, events


def one_by_one(controller: RAGtuneController) -> list[ControllerOutput]:
    return [controller.run(each.query, candidates=each.candidates) for each in requests()]


def under_budgets(controller: RAGtuneController) -> list[ControllerOutput]:
    budgets = [CostBudget.only(max_reranker_docs=3), BUDGET, CostBudget.only(max_reranker_docs=20)]
    outputs = []
    for request in requests():
        controller.forget_failures()  # of one query, which a budget each would make three
        outputs.append(controller.run_under(request, budgets)[1])
    return outputs


DRIVERS: dict[str, Callable[[RAGtuneController], list[ControllerOutput]]] = {
    "two in lockstep": lambda controller: controller.run_many(requests(), 2),
    "all in lockstep": lambda controller: controller.run_many(requests(), 6),
    "under several budgets": under_budgets,
}


def in_threads(controller: RAGtuneController) -> list[ControllerOutput]:
    with ThreadPoolExecutor(len(requests())) as threads:
        return list(threads.map(lambda each: controller.run(each.query, candidates=each.candidates), requests()))


def check(**parts: Any) -> None:
    rerankers = {name: ByQuery() for name in ("default", "cross_encoder", "llm")}
    common = {"retriever": GivenRetriever(), "reformulator": IdentityReformulator()}
    made = {"assembler": GreedyAssembler("posterior"), "budget": BUDGET, "plan": PLAN, **common, **parts}
    controller = RAGtuneController(reranker=rerankers, **made)
    alone = list(map(answer, one_by_one(controller)))
    assert sum(state["rerank_docs"] for _, _, state, _, _ in alone) > 0
    for name, drive in DRIVERS.items():
        controller.forget_failures()
        assert list(map(answer, drive(controller))) == alone, name
    with ExitStack() as ends:
        shared = {name: ends.enter_context(closing(SharedCalls(each))) for name, each in rerankers.items()}
        together = in_threads(RAGtuneController(reranker=shared, **made))
    assert list(map(answer, together)) == alone, "threads that share calls"


def test_estimators(new_estimator: Callable[..., Any]) -> None:
    estimator = new_estimator(corpus=PLAIN.corpus, qrels={}, reranker=ByQuery())
    check(estimator=estimator, scheduler=WindowsScheduler() if estimator.compares else GreedyScheduler(batch_size=2))


def test_schedulers(new_scheduler: Callable[..., Any]) -> None:
    check(estimator=BaselineEstimator(), scheduler=new_scheduler())
