"""Texts on their way to an agent and back."""

from __future__ import annotations

import re
from itertools import islice

from ragtune.core.tokens import count_tokens, token_spans
from ragtune.superprompt.chunks import ContextChunk
from ragtune.superprompt.reading.cleaning import clean, one_line

CUT = " [...]"

_MARKER = re.compile(r"\[\[\s*(?:begin|end)\s+[^\[\]\n]*\]\]")


def cut(text: str, max_tokens: int) -> str:
    """``text`` if it has no more than ``max_tokens`` tokens, else its first ones and `` [...]``."""
    spans = list(islice(token_spans(text), max_tokens + 1))
    return text if len(spans) <= max_tokens else text[: spans[max_tokens - 1][1]] + CUT


def tidy(text: str) -> str:
    """A model's words as they may enter a prompt: clean, and without the markers of the fences it was shown."""
    lines = [(line, _MARKER.sub("", line)) for line in clean(text).split("\n")]
    return "\n".join(bare for line, bare in lines if bare.strip() or not line.strip()).strip()


def bounded(text: str, max_tokens: int) -> str:
    """:func:`cut` to at most ``max_tokens`` tokens, the mark of the cut included."""
    if count_tokens(text) <= max_tokens:
        return text
    room = max_tokens - count_tokens(CUT)
    return cut(text, room) if room > 0 else ""


def item_text(chunk: ContextChunk) -> str:
    """A chunk with its provenance, to be fenced as one: its id is as little ours as its text."""
    provenance = f"ID: {one_line(chunk.id)}\nSOURCE: {chunk.source}\nSPAN: {chunk.start}-{chunk.end}"
    return f"{provenance}\n\n{chunk.snippet}"
