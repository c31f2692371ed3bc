"""ReRanker: a second order of the candidates, from prompt and chunk together (rule E8)."""

from __future__ import annotations

from typing import ClassVar

from ragtune.core.errors import StageError
from ragtune.core.request.context import CostMeter
from ragtune.core.tokens import count_tokens
from ragtune.core.types import ScoredDocument
from ragtune.superprompt.options import PipelineConfig
from ragtune.superprompt.reranking import BaseRerankStage, Reranked
from ragtune.superprompt.stages.base import BaseStage
from ragtune.superprompt.super_prompt import SuperPrompt

NO_RERANKER = "the ReRanker changed nothing: no reranker is set, so the order is that of Retrieval"


class ReRanker(BaseStage):
    """Deterministic: score descending, ties by Retrieval's order.

    A notice names what reranked, and reports an unchanged order. ``extras["reranked"]`` holds the scores with the best
    first, and details of the rerank stage.
    """

    name: ClassVar[str] = "ReRanker"
    writes: ClassVar = frozenset({"views_by_stage"})

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
            outcome = stage.order(stage.query_of(sp.body), candidates, meter)
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
