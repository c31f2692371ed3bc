"""Retrieval: chunks of conversation and memory that are similar to the pieces of the query (rule E7)."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ragtune.canonical import ChunkPolicy, chunk, normalize
from ragtune.canonical.splitters.units import sentence_starts
from ragtune.core.errors import InvalidScoreError
from ragtune.core.request.context import CostMeter
from ragtune.core.tokens import count_tokens, token_spans
from ragtune.superprompt.memory.documents import BaseMemory
from ragtune.superprompt.options import Limits, PipelineConfig
from ragtune.superprompt.reading.formats import without_format
from ragtune.superprompt.reading.text import clean, language_of, words
from ragtune.superprompt.rendering import normalized_query, subject_words
from ragtune.superprompt.stages.base import BaseStage
from ragtune.superprompt.super_prompt import ContextChunk, SuperPrompt, Turn

NOTHING = (
    "no chunk of conversation or memory has anything in common with the prompt: "
    "add documents, or word the task as they do"
)
OTHER_LANGUAGE = (
    "the prompt is in {prompt}, the documents are in {documents}: words that they do not share find nothing, so use an "
    "embedder for both languages or ask in {documents}"
)
_DECIMALS = 6
_LANGUAGE_SAMPLE = 20


class Retrieval(BaseStage):
    """Deterministic vector search; ties go by source (conversation first), document, position in it."""

    name: ClassVar[str] = "Retrieval"

    def __init__(self, memory: BaseMemory) -> None:
        self.memory = memory

    def apply(self, sp: SuperPrompt, config: PipelineConfig, meter: CostMeter) -> None:
        limits = config.limits
        query = normalized_query(sp.body)
        subject = without_format(query)
        pieces = split_query(
            subject if words(subject) else query, limits.n0_query_pieces, limits.min_piece_tokens, limits.piece_slack
        )
        turns = conversation_chunks(sp.recent_conversation, config.chunking.conversation)
        ranked, background = self._search(pieces, turns, limits) if pieces else ([], 0.0)
        if not ranked:
            sp.add_notice(self.name, NOTHING)
        texts = self.memory.sample() or [found.snippet for found, _ in ranked[:_LANGUAGE_SAMPLE]]
        languages = language_of(query), language_of(" ".join(texts))
        if texts and languages[0] != languages[1]:
            names = {"prompt": languages[0].capitalize(), "documents": languages[1].capitalize()}
            sp.add_notice(self.name, OTHER_LANGUAGE.format(**names))
        sp.base_context_chunks = [found.model_copy(deep=True) for found, _ in ranked]
        sp.views_by_stage["retrieval"] = [found.id for found, _ in ranked]
        weights = self.memory.term_weights({term for _, term in subject_words(sp.body, config.request_words)})
        sp.extras["retrieval"] = {"pieces": pieces, "scores": {found.id: score for found, score in ranked}}
        if weights is not None:
            sp.extras["retrieval"]["term_weights"] = dict(weights)
        if self.memory.embedder is not None:
            sp.extras["retrieval"]["background"] = background

    def _search(
        self, pieces: list[str], turns: list[ContextChunk], limits: Limits
    ) -> tuple[list[tuple[ContextChunk, float]], float]:
        """The best candidates with their scores, and the mean score of all chunks."""
        matches = self.memory.search(pieces, turns, limits.n1_retr_max_candidates)
        if not matches.chunks:
            return [], 0.0
        if not np.isfinite(matches.cosines).all():
            raise InvalidScoreError("a cosine is not a finite number: mend the embedder")
        lengths = [count_tokens(piece) for piece in pieces]
        scores = log_avg_exp(matches.cosines, lengths, limits.log_avg_exp_tau)
        similar = np.flatnonzero((matches.cosines > 0.0).any(axis=1)).tolist()
        candidates = [(matches.chunks[i], float(scores[i])) for i in similar]
        candidates.sort(key=lambda pair: (-pair[1], pair[0].tie_key))
        unique: dict[str, tuple[ContextChunk, float]] = {}
        for found, score in candidates:
            unique.setdefault(found.id, (found, score))
        return list(unique.values())[: limits.n1_retr_max_candidates], round(float(scores.mean()), _DECIMALS)


def log_avg_exp(cosines: NDArray[np.float64], lengths: Sequence[int], tau: float) -> NDArray[np.float64]:
    """Return ``(1/tau) * log(sum_p w_p * exp(tau * cos_p))``, with ``w_p`` the share of piece p in the query's tokens.

    ``cosines`` has shape (chunks, pieces), the result (chunks,). This smooth maximum lies between the weighted mean
    (tau -> 0) and the maximum (tau -> infinity), so a chunk that fits one piece well beats a chunk that fits all a
    little. The scores are rounded, so float arithmetic does not decide ties.
    """
    weights = np.asarray(lengths, dtype=np.float64) / float(sum(lengths))
    highest = cosines.max(axis=1, keepdims=True)
    mean = (np.exp(tau * (cosines - highest)) * weights).sum(axis=1)
    scores: NDArray[np.float64] = np.round(highest[:, 0] + np.log(mean) / tau, _DECIMALS)
    return scores


def conversation_chunks(turns: Sequence[Turn], policy: ChunkPolicy) -> list[ContextChunk]:
    """Return chunks of every turn. Turn n, from 0, is document ``conversation/<n>``; metadata has its role."""
    return [
        ContextChunk.of(piece.model_copy(update={"metadata": {"role": turn.role}}), "conversation")
        for n, turn in enumerate(turns)
        for piece in chunk(normalize(clean(turn.content)), policy, doc_id=f"conversation/{n:04d}")
    ]


def split_query(query: str, count: int, min_tokens: int, slack: float) -> list[str]:
    """At most ``count`` pieces of about equal length, cut within ``slack`` at an end of sentence, line or word."""
    starts = [start for start, _ in token_spans(query)]
    pieces = min(count, len(starts) // min_tokens)
    if pieces < 2:
        return [query] if starts else []
    sentences, gaps = _borders(query, starts)
    reach = slack * len(starts) / pieces
    cuts = [0]
    for k in range(1, pieces):
        ideal = k * len(starts) / pieces
        cuts.append(_nearest(sentences, ideal, reach) or _nearest(gaps, ideal, reach) or round(ideal))
    offsets = [starts[cut] for cut in cuts[1:]]
    return [query[a:b].strip() for a, b in zip([0, *offsets], [*offsets, len(query)], strict=True)]


def _borders(query: str, starts: Sequence[int]) -> tuple[list[int], list[int]]:
    lines = (match.end() for match in re.finditer("\n", query))
    sentences = sorted({bisect_left(starts, begin) for begin in (*sentence_starts(query), *lines)})
    gaps = [i for i, start in enumerate(starts) if start > 0 and query[start - 1].isspace()]
    return [i for i in sentences if 0 < i < len(starts)], gaps


def _nearest(positions: Sequence[int], ideal: float, reach: float) -> int | None:
    at = bisect_left(positions, ideal)
    near = [p for p in positions[max(0, at - 1) : at + 1] if abs(p - ideal) <= reach]
    return min(near, key=lambda p: (abs(p - ideal), p)) if near else None
