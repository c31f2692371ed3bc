"""Whatever the policy, a query in lockstep with others gets the answer that it gets alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ragtune import CostBudget, RAGtuneController
from ragtune.assemblers.greedy import GreedyAssembler
from ragtune.core.interfaces import BaseReranker
from ragtune.core.output import ControllerOutput
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.request.request import Request
from ragtune.core.rounds import RetrievalPlan
from ragtune.estimators.baseline import BaselineEstimator
from ragtune.reformulators.identity import IdentityReformulator
from ragtune.retrievers.given import GivenRetriever
from ragtune.schedulers.greedy import GreedyScheduler
from ragtune.testing import WORLDS

PLAIN = WORLDS["plain"]()


class ByQuery(BaseReranker):
    """Every query likes other documents, and one query finds nobody there."""

    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        number = int(context.query.split()[0])
        if number == 4:
            raise OSError("no host")
        return {item.doc_id: (int(item.doc_id[1:]) * (2 * number + 3) % 11) / 10 for item in items}

    @property
    def is_recorded(self) -> bool:
        return True


def requests() -> list[Request]:
    ids = PLAIN.corpus.doc_ids
    found = [[PLAIN.corpus.scored(doc_id, 9.0 - i) for i, doc_id in enumerate(ids[n : 3 * n + 4])] for n in range(6)]
    return [Request(f"{n} salt bread", candidates=documents) for n, documents in enumerate(found)]


def answer(output: ControllerOutput) -> Any:
    ranked = [(document.id, document.score, document.reranker_score) for document in output.documents]
    events = [(event.component, event.action, event.details) for event in output.trace.events]
    return ranked, output.stop, output.final_budget_state, output.dropped, events


def check(**parts: Any) -> None:
    rerankers = {name: ByQuery() for name in ("default", "cross_encoder", "llm")}
    common = {"retriever": GivenRetriever(), "reformulator": IdentityReformulator(), "reranker": rerankers}
    budget, plan = CostBudget.only(max_reranker_docs=7), RetrievalPlan(num_reformulations=0)
    made = {"assembler": GreedyAssembler("posterior"), "budget": budget, "plan": plan, **common, **parts}
    controller = RAGtuneController(**made)
    alone = [answer(controller.run(r.query, candidates=r.candidates)) for r in requests()]
    assert sum(state["rerank_docs"] for _, _, state, _, _ in alone) > 0
    for width in (2, 6):
        controller.forget_failures()
        assert [answer(output) for output in controller.run_many(requests(), width)] == alone


def test_estimators(new_estimator: Callable[..., Any]) -> None:
    estimator = new_estimator(corpus=PLAIN.corpus, qrels={}, reranker=ByQuery())
    check(estimator=estimator, scheduler=GreedyScheduler(batch_size=2))


def test_schedulers(new_scheduler: Callable[..., Any]) -> None:
    check(estimator=BaselineEstimator(), scheduler=new_scheduler())
