"""The session's turns as chunks."""

from __future__ import annotations

from collections.abc import Sequence

from ragtune.canonical import chunk, normalize
from ragtune.canonical.policies import ChunkPolicy
from ragtune.superprompt.chunks import ContextChunk
from ragtune.superprompt.reading.cleaning import clean
from ragtune.superprompt.super_prompt import Turn


def conversation_chunks(turns: Sequence[Turn], policy: ChunkPolicy) -> list[ContextChunk]:
    """Every turn chunked; the n-th turn, from 0, is document ``conversation/<n>``, its role in the metadata."""
    return [
        ContextChunk.of(piece.model_copy(update={"metadata": {"role": turn.role}}), "conversation")
        for n, turn in enumerate(turns)
        for piece in chunk(normalize(clean(turn.content)), policy, doc_id=f"conversation/{n:04d}")
    ]
