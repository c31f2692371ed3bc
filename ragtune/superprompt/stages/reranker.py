"""ReRanker: the candidates again, read together with the prompt (rule E8)."""

from __future__ import annotations

from typing import ClassVar

from ragtune.core.errors import StageError
from ragtune.core.request.context import CostMeter
from ragtune.core.tokens import count_tokens
from ragtune.core.types import ScoredDocument
from ragtune.superprompt.chunks import ContextChunk
from ragtune.superprompt.limits import PipelineConfig
from ragtune.superprompt.reranking.base import BaseRerankStage, Reranked
from ragtune.superprompt.stages.base import BaseStage
from ragtune.superprompt.super_prompt import SuperPrompt

NO_RERANKER = "the ReRanker changed nothing: no reranker is set, so the order is that of Retrieval"


class ReRanker(BaseStage):
    """Deterministic: score descending, ties by Retrieval's order.

    A notice says what reranked, and where that changed nothing. ``extras["reranked"]`` holds the scores, best first,
    and what the rerank stage says about itself.

    Args:
        rerank_stage: how the top N2 are scored, see :mod:`ragtune.superprompt.reranking`; None keeps their order.
    """

    name: ClassVar[str] = "ReRanker"
    requires: ClassVar = "retrieval"
    completes: ClassVar = "reranked"
    writes: ClassVar = frozenset({"views_by_stage"})

    def __init__(self, rerank_stage: BaseRerankStage | None = None) -> None:
        self.rerank_stage = rerank_stage

    def apply(self, sp: SuperPrompt, config: PipelineConfig, meter: CostMeter) -> None:
        ids = sp.views_by_stage["retrieval"][: config.limits.n2_rerank_top_k]
        scores = sp.extras.get("retrieval", {}).get("scores", {})
        candidates = [_document(chunk, scores.get(chunk.id, 0.0)) for chunk in sp.chunks(ids)]
        if self.rerank_stage is None or not candidates:
            outcome = Reranked(ids, {})
        else:
            outcome = self.rerank_stage.order(self.rerank_stage.query_of(sp.body), candidates, meter)
        if sorted(outcome.ids) != sorted(ids):
            raise StageError(f"{type(self.rerank_stage).__name__} gave other candidates back than it was given")
        sp.views_by_stage["reranked"] = list(outcome.ids)
        sp.extras["reranked"] = {"rerank_stage": "none", "scores": outcome.scores}
        message = NO_RERANKER
        if self.rerank_stage is not None:
            told = {"rerank_stage": type(self.rerank_stage).__name__, "reranker": self.rerank_stage.label}
            sp.extras["reranked"] |= told | outcome.details
            message = f"reranked by {sp.extras['reranked']['reranker']}"
            if list(outcome.ids) == ids:
                message += ": the ReRanker changed nothing, the order is that of Retrieval"
        if len(ids) > 1:
            sp.extras.setdefault("notices", []).append({"stage": self.name, "message": message})


def _document(chunk: ContextChunk, score: float) -> ScoredDocument:
    text = chunk.snippet
    return ScoredDocument(id=chunk.id, content=text, score=score, original_score=score, token_count=count_tokens(text))
