"""The query and its pieces (rule E7)."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence

from ragtune.canonical.splitters.units import sentence_starts
from ragtune.core.tokens import token_spans
from ragtune.superprompt.reading.text import one_line

QUERY_KEYS = ("task", "context", "purpose")


def normalized_query(body: Mapping[str, str]) -> str:
    """Return task, context and purpose, each on its own line with white space collapsed."""
    return "\n".join(line for key in QUERY_KEYS if (line := one_line(body.get(key, ""))))


def split_query(query: str, count: int, min_tokens: int, slack: float) -> list[str]:
    """Cut a query into at most ``count`` pieces of about equal length, with ``min_tokens`` on average or more.

    The k-th cut is at k/pieces of the tokens. Within ``slack`` of a piece's length it moves to the nearest end of a
    sentence or line, else to the nearest gap between words. Only white space is lost.
    """
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
    """Positions of the tokens that begin a sentence or line, and of those after white space."""
    lines = (match.end() for match in re.finditer("\n", query))
    sentences = sorted({bisect_left(starts, begin) for begin in (*sentence_starts(query), *lines)})
    gaps = [i for i, start in enumerate(starts) if start > 0 and query[start - 1].isspace()]
    return [i for i in sentences if 0 < i < len(starts)], gaps


def _nearest(positions: Sequence[int], ideal: float, reach: float) -> int | None:
    at = bisect_left(positions, ideal)
    near = [p for p in positions[max(0, at - 1) : at + 1] if abs(p - ideal) <= reach]
    return min(near, key=lambda p: (abs(p - ideal), p)) if near else None
