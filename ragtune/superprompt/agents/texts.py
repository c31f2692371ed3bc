"""Texts and numbers on their way to an agent and back."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from itertools import islice
from typing import Any

from ragtune.core.tokens import count_tokens, token_spans
from ragtune.superprompt.chunks import ContextChunk
from ragtune.superprompt.reading.cleaning import clean, one_line

CUT = " [...]"
SHARE: Mapping[str, Any] = {"type": "number", "minimum": 0, "maximum": 1}
"""JSON schema of a number in [0, 1]."""

_MARKER = re.compile(r"\[\[\s*(?:begin|end)\s+[^\[\]\n]*\]\]")


def cut(text: str, max_tokens: int) -> str:
    """Return ``text``, or its first ``max_tokens`` tokens and `` [...]`` if it has more."""
    spans = list(islice(token_spans(text), max_tokens + 1))
    return text if len(spans) <= max_tokens else text[: spans[max_tokens - 1][1]] + CUT


def bounded(text: str, max_tokens: int) -> str:
    """:func:`cut` to at most ``max_tokens`` tokens, including the mark of the cut."""
    if count_tokens(text) <= max_tokens:
        return text
    room = max_tokens - count_tokens(CUT)
    return cut(text, room) if room > 0 else ""


def tidy(text: str) -> str:
    """Return a model's text without control characters and without markers of the fences that it was shown."""
    lines = [(line, _MARKER.sub("", line)) for line in clean(text).split("\n")]
    return "\n".join(bare for line, bare in lines if bare.strip() or not line.strip()).strip()


def item_text(chunk: ContextChunk) -> str:
    """Return a chunk with its provenance. Both go behind one fence, because the id is input too."""
    provenance = f"ID: {one_line(chunk.id)}\nSOURCE: {chunk.source}\nSPAN: {chunk.start}-{chunk.end}"
    return f"{provenance}\n\n{chunk.snippet}"


def number_of(value: Any) -> int | None:
    """Return the item number of a value: a whole number, or its digits; None for anything else."""
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
        return int(value.strip()[:9])
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def share_of(value: Any) -> float | None:
    """Return the value as a number in [0, 1]; None for anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) and 0.0 <= value <= 1.0 else None
