"""Retrieval: chunks of conversation and memory that are similar to the pieces of the query (rule E7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ragtune.core.errors import InvalidScoreError, StageError
from ragtune.core.request.context import CostMeter
from ragtune.core.tokens import count_tokens
from ragtune.superprompt.super_prompt import ContextChunk
from ragtune.superprompt.limits import Limits, PipelineConfig
from ragtune.superprompt.memory.base import BaseMemory
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
_DECIMALS = 6


class Retrieval(BaseStage):
    """Deterministic vector search. Ties go by source (conversation first), document, position in it.

    A chunk without a positive cosine to any piece is no candidate. ``extras["retrieval"]`` holds the pieces, the scores
    with the best first, and the weights of the query's terms where the memory compares terms.

    Args:
        memory: the long-term memory that is searched with the conversation.
    """

    name: ClassVar[str] = "Retrieval"
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
            if config.nothing_found == "refuse":
                raise StageError(NOTHING)
            sp.add_notice(self.name, NOTHING)
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
        scores = log_avg_exp(matches.cosines, lengths, limits.log_avg_exp_tau).tolist()
        similar = np.flatnonzero((matches.cosines > 0.0).any(axis=1)).tolist()
        candidates = [(matches.chunks[i], scores[i]) for i in similar]
        candidates.sort(key=lambda pair: (-pair[1], pair[0].tie_key))
        unique: dict[str, tuple[ContextChunk, float]] = {}
        for chunk, score in candidates:
            unique.setdefault(chunk.id, (chunk, score))
        return list(unique.values())[: limits.n1_retr_max_candidates]


def log_avg_exp(cosines: NDArray[np.float64], lengths: Sequence[int], tau: float) -> NDArray[np.float64]:
    """Return ``(1/tau) * log(sum_p w_p * exp(tau * cos_p))``, with ``w_p`` the share of piece p in the query's tokens.

    This smooth maximum lies between the weighted mean (tau -> 0) and the maximum (tau -> infinity), so a chunk that
    fits one piece well beats a chunk that fits all a little. The weights are the length normalisation.

    Args:
        cosines: shape (chunks, pieces), in [-1, 1].
        lengths: tokens of each piece, >= 1.
        tau: > 0.

    Returns:
        Shape (chunks,), between the lowest and the highest cosine of the row. The scores are rounded to 6 decimals, so
        float arithmetic does not decide ties.
    """
    weights = np.asarray(lengths, dtype=np.float64) / float(sum(lengths))
    highest = cosines.max(axis=1, keepdims=True)
    mean = (np.exp(tau * (cosines - highest)) * weights).sum(axis=1)
    scores: NDArray[np.float64] = np.round(highest[:, 0] + np.log(mean) / tau, _DECIMALS)
    return scores
