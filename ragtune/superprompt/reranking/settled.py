"""The usual policy under a limit of documents."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ragtune.core.interfaces import BaseReranker
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.context import CostMeter
from ragtune.core.types import ScoredDocument
from ragtune.superprompt.reranking.base import BaseRerankStage, Reranked
from ragtune.superprompt.reranking.budgeted import BudgetedRerankStage
from ragtune.superprompt.reranking.top import TopRerankStage


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
        return f"{TopRerankStage(self.reranker).label}, under a budget"

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
