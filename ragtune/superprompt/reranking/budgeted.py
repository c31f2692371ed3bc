"""The budgeted controller in place of a fixed depth."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ragtune.assemblers.greedy import GreedyAssembler
from ragtune.core.controller import RAGtuneController
from ragtune.core.interfaces import BaseEstimator, BaseReranker, BaseScheduler
from ragtune.core.pool.ordering import Ordering
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.context import CostMeter
from ragtune.core.rounds import RetrievalPlan
from ragtune.core.types import ScoredDocument
from ragtune.data.caches.diskcache import AUTO
from ragtune.reformulators.identity import IdentityReformulator
from ragtune.retrievers.given import GivenRetriever
from ragtune.superprompt.reranking.base import BaseRerankStage, Reranked


class BudgetedRerankStage(BaseRerankStage):
    """Runs the budgeted controller over the candidates: which of them are scored is the estimator's and scheduler's.

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
        self._label = getattr(reranker, "model", type(reranker).__name__)
        # One controller for all prompts: what it learns of a strategy (that it is dead, how long it takes) lasts.
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

    @property
    def label(self) -> str:
        return f"{self._label}, under a budget"

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


class CandidateRerankStage(BaseRerankStage):
    """A budgeted stage made anew for every prompt from its candidates, where not all chunks of the memory are at hand.

    Args:
        make: makes the stage from the candidates' texts by id.
    """

    def __init__(self, make: Callable[[Mapping[str, str]], BaseRerankStage]) -> None:
        self._make = make

    def order(
        self, query: str, candidates: Sequence[ScoredDocument], meter: CostMeter, query_id: str | None = None
    ) -> Reranked:
        texts = {candidate.id: candidate.content for candidate in candidates}
        return self._make(texts).order(query, candidates, meter, query_id)


def settled_stage(
    reranker: BaseReranker, texts: Mapping[str, str], docs: int, cache_dir: str | None = AUTO
) -> BudgetedRerankStage:
    """The usual budgeted stage: a posterior over the candidates, stopped once the top is settled.

    Args:
        reranker: the expensive scorer.
        texts: texts by id of everything that may become a candidate; the posterior takes likeness from them.
        docs: the most candidates that may be scored for a prompt, >= 1.
        cache_dir: where the texts' terms are kept; None for texts that are not asked about again.
    """
    from ragtune.acquisitions.upper_confidence import UpperConfidenceAcquisition
    from ragtune.data.corpus import Corpus, Document
    from ragtune.embedders.tfidf import TfidfEmbedder
    from ragtune.estimators.uncertainty import UncertaintyEstimator
    from ragtune.schedulers.settled import SettledScheduler

    # Without a chunk there is no candidate and nothing is ever reranked, but a corpus has at least one document.
    corpus = Corpus([Document(id=name, text=text) for name, text in texts.items()] or [Document(id="none", text="")])
    embedder = partial(TfidfEmbedder, cache_dir=cache_dir)
    return BudgetedRerankStage(
        UncertaintyEstimator(corpus, embedder),
        SettledScheduler(acquisition=UpperConfidenceAcquisition()),
        reranker,
        CostBudget.only(max_reranker_docs=docs),
        ordering="posterior",
    )
