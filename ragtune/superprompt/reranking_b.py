"""The budgeted controller in place of a fixed depth."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from functools import partial

from ragtune.assemblers.greedy import GreedyAssembler
from ragtune.core.controller import RAGtuneController
from ragtune.core.interfaces import BaseEstimator, BaseReranker, BaseScheduler
from ragtune.core.pool.ordering import Ordering
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.context import CostMeter
from ragtune.core.rounds import RetrievalPlan
from ragtune.core.types import ScoredDocument
from ragtune.reformulators.identity import IdentityReformulator
from ragtune.retrievers.given import GivenRetriever
from ragtune.superprompt.reranking import BaseRerankStage, Reranked
from ragtune.superprompt.reranking import name_of


class BudgetedRerankStage(BaseRerankStage):
    """Runs the budgeted controller over the candidates. Estimator and scheduler decide which of them are scored.

    Args:
        estimator: values the candidates.
        scheduler: chooses the batches.
        reranker: the expensive scorer.
        budget: limits for each prompt.
        ordering: order of the final list: ``final_score``, ``reranked_first`` or ``posterior``.
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
        # One controller serves all prompts, so it remembers failures and speed of a strategy.
        self._controller = RAGtuneController(
            retriever=GivenRetriever(),
            reformulator=IdentityReformulator(),
            estimator=estimator,
            scheduler=scheduler,
            reranker={"default": reranker, **(rerankers or {})},
            assembler=GreedyAssembler(Ordering.parse(ordering)),
            budget=budget,
            plan=RetrievalPlan(original_query_depth=sys.maxsize, num_reformulations=0),
            seed=seed,
        )
        self._label = f"{name_of(reranker)}, under a budget"

    @property
    def label(self) -> str:
        return self._label

    def forget_failures(self) -> None:
        self._controller.forget_failures()

    def order(
        self, query: str, candidates: Sequence[ScoredDocument], meter: CostMeter, query_id: str | None = None
    ) -> Reranked:
        output = self._controller.run(query, query_id=query_id, candidates=candidates)
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


class SettledRerankStage(BaseRerankStage):
    """Scores at most ``docs`` candidates of a prompt, and stops once the top is settled.

    A posterior over the candidates chooses the next documents. It takes similarity from the candidates' texts.

    Args:
        reranker: the expensive scorer.
        docs: limit of scored candidates for a prompt, >= 1.
    """

    def __init__(self, reranker: BaseReranker, docs: int) -> None:
        self.reranker = reranker
        self.docs = docs

    @property
    def label(self) -> str:
        return f"{name_of(self.reranker)}, under a budget"

    def order(
        self, query: str, candidates: Sequence[ScoredDocument], meter: CostMeter, query_id: str | None = None
    ) -> Reranked:
        from ragtune.acquisitions.upper_confidence import UpperConfidenceAcquisition
        from ragtune.data.corpus import Corpus, Document
        from ragtune.embedders.tfidf import TfidfEmbedder
        from ragtune.estimators.posterior.uncertainty import UncertaintyEstimator
        from ragtune.schedulers.settled import SettledScheduler

        corpus = Corpus(Document(id=candidate.id, text=candidate.content) for candidate in candidates)
        stage = BudgetedRerankStage(
            UncertaintyEstimator(corpus, partial(TfidfEmbedder, cache_dir=None)),
            SettledScheduler(acquisition=UpperConfidenceAcquisition()),
            self.reranker,
            CostBudget.only(max_reranker_docs=self.docs),
            ordering="posterior",
        )
        return stage.order(query, candidates, meter, query_id)
