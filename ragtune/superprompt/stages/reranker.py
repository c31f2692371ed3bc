"""ReRanker: a second order of the candidates, from prompt and chunk together, and the ways to make it (rule E8)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ragtune.core.errors import StageError
from ragtune.core.interfaces import BaseReranker
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.context import CostMeter, RAGtuneContext
from ragtune.core.tokens import count_tokens
from ragtune.core.types import ScoredDocument
from ragtune.superprompt.options import CROSS_ENCODER, PipelineConfig
from ragtune.superprompt.rendering import rerank_query
from ragtune.superprompt.stages.base import BaseStage
from ragtune.superprompt.super_prompt import SuperPrompt

NO_RERANKER = "the ReRanker changed nothing: no reranker is set, so the order is that of Retrieval"


@dataclass(frozen=True)
class Reranked:
    """All candidates, best first, and calibrated scores in [0, 1]; ``details`` may have each one's ``support``."""

    ids: list[str]
    scores: dict[str, float]
    details: dict[str, Any] = field(default_factory=dict)


class BaseRerankStage(ABC):
    """Orders candidates for a query."""

    label: str = "a reranker"

    @abstractmethod
    def order(self, body: Mapping[str, str], candidates: Sequence[ScoredDocument], meter: CostMeter) -> Reranked:
        """Return the same candidates, at least one, in a new order for a prompt's body; ties keep the given order."""


class TopRerankStage(BaseRerankStage):
    """Scores every candidate in one batch: the fixed depth of rule E8. Candidates without a score come last."""

    def __init__(self, reranker: BaseReranker) -> None:
        self.reranker = reranker
        self.label = str(getattr(reranker, "model", type(reranker).__name__))

    @classmethod
    def cross_encoder(cls, model: str = CROSS_ENCODER, **options: Any) -> TopRerankStage:
        """With a cross-encoder of sentence-transformers, see :class:`CrossEncoderReranker` for the options."""
        from ragtune.rerankers.models.cross_encoder import CrossEncoderReranker

        return cls(CrossEncoderReranker(model, **options))

    def order(self, body: Mapping[str, str], candidates: Sequence[ScoredDocument], meter: CostMeter) -> Reranked:
        items = [PoolItem.from_document(doc, rank, {"retrieval": doc.score}) for rank, doc in enumerate(candidates)]
        context = RAGtuneContext(
            query=rerank_query(body), query_id="", tracker=CostBudget.unlimited().create_tracker(), meter=meter
        )
        expected = self.reranker.expected_cost(items, context)
        scores = self.reranker.rerank(items, context, "default")
        if meter.charged is None:
            meter.charge(expected)
        ranked = sorted((doc.id for doc in candidates if doc.id in scores), key=lambda doc_id: -scores[doc_id])
        unscored = [doc.id for doc in candidates if doc.id not in scores]
        return Reranked([*ranked, *unscored], {doc_id: float(scores[doc_id]) for doc_id in ranked})


class BudgetedRerankStage(TopRerankStage):
    """Scores at most ``docs`` candidates of a prompt, chosen by the posterior, and stops once the top is settled."""

    def __init__(self, reranker: BaseReranker, docs: int) -> None:
        super().__init__(reranker)
        self.docs = docs
        self.label += ", under a budget"

    def order(self, body: Mapping[str, str], candidates: Sequence[ScoredDocument], meter: CostMeter) -> Reranked:
        from ragtune.facade.reranker import BudgetedReranker

        texts = [candidate.content for candidate in candidates]
        budgeted = BudgetedReranker(self.reranker, docs=self.docs, policy="settled", batch_size=2)
        ranking = budgeted.rank(rerank_query(body), texts, [candidate.score for candidate in candidates])
        meter.charge(ranking.cost)
        ids = [candidates[one.index].id for one in ranking]
        scores = {i: one.reranker_score for i, one in zip(ids, ranking, strict=True) if one.reranker_score is not None}
        details: dict[str, Any] = {"dropped": {candidates[i].id: why for i, why in ranking.failures.items()}}
        if ranking.stop is not None:
            details["stop"] = ranking.stop.model_dump()
        return Reranked(ids, scores, details)


class ReRanker(BaseStage):
    """Deterministic: score descending, ties by Retrieval's order. A notice names what reranked."""

    name: ClassVar[str] = "ReRanker"

    def __init__(self, rerank_stage: BaseRerankStage | None = None) -> None:
        self.rerank_stage = rerank_stage

    def apply(self, sp: SuperPrompt, config: PipelineConfig, meter: CostMeter) -> None:
        stage = self.rerank_stage
        ids = sp.views_by_stage["retrieval"][: config.limits.n2_rerank_top_k]
        scores = sp.extras.get("retrieval", {}).get("scores", {})
        candidates = [
            ScoredDocument(
                id=chunk.id,
                content=chunk.snippet,
                score=scores.get(chunk.id, 0.0),
                original_score=scores.get(chunk.id, 0.0),
                token_count=count_tokens(chunk.snippet),
            )
            for chunk in sp.chunks(ids)
        ]
        outcome = Reranked(ids, {})
        if stage is not None and candidates:
            outcome = stage.order(sp.body, candidates, meter)
        if sorted(outcome.ids) != sorted(ids):
            raise StageError(f"{type(stage).__name__} returned other candidates than it received")
        sp.views_by_stage["reranked"] = list(outcome.ids)
        sp.extras["reranked"] = {"rerank_stage": "none", "scores": outcome.scores}
        message = NO_RERANKER
        if stage is not None:
            names = {"rerank_stage": type(stage).__name__, "reranker": stage.label}
            sp.extras["reranked"] |= names | outcome.details
            message = f"reranked by {stage.label}"
            if list(outcome.ids) == ids:
                message += ": the ReRanker changed nothing, the order is that of Retrieval"
        if len(ids) > 1:
            sp.add_notice(self.name, message)
