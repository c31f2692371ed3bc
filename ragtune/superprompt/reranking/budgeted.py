"""The budgeted controller in place of a fixed depth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ragtune.assemblers.greedy import GreedyAssembler
from ragtune.core.controller import RAGtuneController
from ragtune.core.interfaces import BaseEstimator, BaseReranker, BaseRetriever, BaseScheduler
from ragtune.core.pool.ordering import Ordering
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.context import CostMeter, RAGtuneContext
from ragtune.core.rounds import RetrievalPlan
from ragtune.core.types import ScoredDocument
from ragtune.reformulators.identity import IdentityReformulator
from ragtune.superprompt.reranking.base import BaseRerankStage, Reranked


class BudgetedRerankStage(BaseRerankStage):
    """Runs the budgeted controller over the candidates: which of them are scored is the estimator's and scheduler's.

    Args:
        estimator: values the candidates.
        scheduler: chooses the batches.
        reranker: the expensive scorer.
        budget: limits of each prompt.
        ordering: of the final list, ``final_score``, ``reranked_first`` or ``posterior``.
        seed: root of all randomness.
        rerankers: further strategies by name, for schedulers that choose between several.
    """

    def __init__(
        self,
        estimator: BaseEstimator,
        scheduler: BaseScheduler,
        reranker: BaseReranker,
        budget: CostBudget,
        ordering: Ordering | str = Ordering.FINAL_SCORE,
        seed: int = 0,
        rerankers: Mapping[str, BaseReranker] | None = None,
    ) -> None:
        self.estimator = estimator
        self.scheduler = scheduler
        self.rerankers = {"default": reranker, **(rerankers or {})}
        self.budget = budget
        self.ordering = Ordering.parse(ordering)
        self.seed = seed

    def order(
        self, query: str, candidates: Sequence[ScoredDocument], meter: CostMeter, query_id: str | None = None
    ) -> Reranked:
        controller = RAGtuneController(
            retriever=_Given(candidates),
            reformulator=IdentityReformulator(),
            estimator=self.estimator,
            scheduler=self.scheduler,
            reranker=self.rerankers,
            assembler=GreedyAssembler(self.ordering),
            budget=self.budget,
            plan=RetrievalPlan(original_query_depth=len(candidates), depth_per_reformulation=1, num_reformulations=0),
            seed=self.seed,
        )
        output = controller.run(query, query_id=query_id)
        ranked = list(output.ranking)
        last = output.history[-1]
        meter.charge(last.cost)
        meter.pay(output.actual_cost)
        numbers = zip(last.doc_ids, last.columns.scores.tolist(), strict=True)
        scores = {doc_id: score for doc_id, score in numbers if not math.isnan(score)}
        kept = set(ranked)
        left = [doc.id for doc in candidates if doc.id not in kept]
        details = {"stop": output.stop.model_dump(), "dropped": output.dropped}
        return Reranked([*ranked, *left], scores, details, output)


class _Given(BaseRetriever):
    """Candidates that have been found already."""

    def __init__(self, candidates: Sequence[ScoredDocument]) -> None:
        self._candidates = list(candidates)

    def retrieve(self, context: RAGtuneContext, top_k: int) -> list[ScoredDocument]:
        return self._candidates[:top_k]
