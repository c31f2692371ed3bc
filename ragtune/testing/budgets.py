"""One replay for several budgets gives what a replay for each of them gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ragtune.assemblers.greedy import GreedyAssembler
from ragtune.core.controller import RAGtuneController
from ragtune.core.interfaces import BaseExpander
from ragtune.core.output import ControllerOutput
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.context import GRAPH_SOURCE, RAGtuneContext, Request
from ragtune.core.rounds import RetrievalPlan
from ragtune.core.types import ScoredDocument
from ragtune.estimators.baseline import BaselineEstimator
from ragtune.reformulators.identity import IdentityReformulator
from ragtune.retrievers.given import GivenRetriever
from ragtune.schedulers.greedy import GreedyScheduler
from ragtune.schedulers.windows import WindowsScheduler
from ragtune.testing.worlds import World, WorldReranker

BUDGETS = {
    limit: [CostBudget.only(**{limit: allowed}) for allowed in (0, 1, 3, 8, 100)]
    for limit in ("max_reranker_docs", "max_reranker_calls")
}
"""The budgets that may share their decisions, by what they limit."""


class Growth(BaseExpander):
    """Brings the documents that join a world's pool after a batch."""

    def __init__(self, world: World) -> None:
        self._world = world

    def expand(self, pool: CandidatePool, context: RAGtuneContext, limit: int) -> list[ScoredDocument]:
        new = self._world.corpus.doc_ids[len(pool) : len(pool) + min(limit, self._world.finds)]
        return [self._world.corpus.scored(doc_id, 0.3, sources={GRAPH_SOURCE: 0.3}) for doc_id in new]


def require_same_under_all_budgets(world: World, **parts: Any) -> None:
    """Raise an AssertionError if one replay for several budgets differs from a replay for each of them.

    Args:
        world: the collection.
        parts: of the controller, ``estimator`` or ``scheduler`` for instance; greedy first-stage batches by default.
    """
    usual: dict[str, Any] = {
        "retriever": GivenRetriever(),
        "reformulator": IdentityReformulator(),
        "estimator": BaselineEstimator(),
        "scheduler": GreedyScheduler(batch_size=3),
        "expander": Growth(world),
        "reranker": WorldReranker(world),
        "assembler": GreedyAssembler(),
        "budget": CostBudget.unlimited(),
        "plan": RetrievalPlan(original_query_depth=100),
    }
    if parts.get("estimator", usual["estimator"]).compares:
        usual["scheduler"] = WindowsScheduler()
    controller = RAGtuneController(**(usual | parts))
    found = [world.corpus.scored(item.doc_id, item.retrieval_score, item.sources) for item in world.pool()]
    for budgets in BUDGETS.values():
        together = controller.run_under(Request("salt bread", "q1", candidates=found), budgets)
        alone = [controller.run("salt bread", budget, query_id="q1", candidates=found) for budget in budgets]
        assert _records(together) == _records(alone)


def _records(outputs: Sequence[ControllerOutput]) -> list[str]:
    return [output.model_dump_json() for output in outputs]
