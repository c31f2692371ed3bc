"""Retrieval: chunks of conversation and memory, by likeness to the pieces of the query (rule E7)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ragtune.core.errors import InvalidScoreError, StageError
from ragtune.core.request.context import CostMeter
from ragtune.core.tokens import count_tokens
from ragtune.superprompt.chunks import ContextChunk
from ragtune.superprompt.evidence.aggregation import log_avg_exp
from ragtune.superprompt.limits import Limits, PipelineConfig
from ragtune.superprompt.memory.base import BaseMemory, Matches
from ragtune.superprompt.memory.conversation import conversation_chunks
from ragtune.superprompt.reading.formats import without_format
from ragtune.superprompt.reading.pieces import normalized_query, split_query
from ragtune.superprompt.reading.stopwords import content_words
from ragtune.superprompt.stages.base import BaseStage
from ragtune.superprompt.super_prompt import SuperPrompt

NOTHING = (
    "no chunk of conversation or memory has anything in common with the prompt: "
    "add documents, or word the task as they do"
)


class Retrieval(BaseStage):
    """Deterministic vector search; ties by source (conversation first), document, place in it.

    A chunk without a positive cosine to any piece is not a candidate. ``extras["retrieval"]`` holds the pieces, the
    scores, best first, and where likeness is one of terms what each term of the query weighs.

    Args:
        memory: what is searched beside the conversation.
    """

    name: ClassVar[str] = "Retrieval"
    requires: ClassVar = "a2"
    completes: ClassVar = "retrieval"
    writes: ClassVar = frozenset({"base_context_chunks", "views_by_stage"})

    def __init__(self, memory: BaseMemory) -> None:
        self.memory = memory

    def apply(self, sp: SuperPrompt, config: PipelineConfig, meter: CostMeter) -> None:
        limits = config.limits
        query = normalized_query(sp.body)
        pieces = split_query(query, limits.n0_query_pieces, limits.min_piece_tokens, limits.piece_slack)
        turns = conversation_chunks(sp.recent_conversation, config.chunking.conversation)
        ranked = self._search(pieces, turns, limits) if pieces else []
        if not ranked:
            _report_nothing(sp, config)
        sp.base_context_chunks = [chunk.model_copy(deep=True) for chunk, _ in ranked]
        sp.views_by_stage["retrieval"] = [chunk.id for chunk, _ in ranked]
        wanted = {term for word, term in content_words(without_format(query)) if word not in config.request_words}
        weights = self.memory.term_weights(wanted)
        sp.extras["retrieval"] = {"pieces": pieces, "scores": {chunk.id: score for chunk, score in ranked}}
        if weights is not None:
            sp.extras["retrieval"]["term_weights"] = dict(weights)

    def _search(self, pieces: list[str], turns: list[ContextChunk], limits: Limits) -> list[tuple[ContextChunk, float]]:
        matches = self.memory.search(pieces, turns, limits.n1_retr_max_candidates)
        if not matches.chunks:
            return []
        if not np.isfinite(matches.cosines).all():
            raise InvalidScoreError("a cosine is not a finite number: mend the embedder")
        lengths = [count_tokens(piece) for piece in pieces]
        scores = log_avg_exp(matches.cosines, lengths, limits.log_avg_exp_tau)
        return _best(matches, scores.tolist(), limits.n1_retr_max_candidates)


def _best(matches: Matches, scores: list[float], limit: int) -> list[tuple[ContextChunk, float]]:
    alike = np.flatnonzero((matches.cosines > 0.0).any(axis=1)).tolist()
    candidates = [(matches.chunks[i], scores[i]) for i in alike]
    candidates.sort(key=lambda pair: (-pair[1], pair[0].tie_key))
    unique: dict[str, tuple[ContextChunk, float]] = {}
    for chunk, score in candidates:
        unique.setdefault(chunk.id, (chunk, score))
    return list(unique.values())[:limit]


def _report_nothing(sp: SuperPrompt, config: PipelineConfig) -> None:
    if config.nothing_found == "refuse":
        raise StageError(NOTHING)
    notices: list[Any] = sp.extras.setdefault("notices", [])
    notices.append({"stage": Retrieval.name, "message": NOTHING})
