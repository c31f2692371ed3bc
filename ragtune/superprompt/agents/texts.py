"""Texts on their way to an agent and back: cut to a limit, cleaned, split into sections."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice

from ragtune.core.tokens import count_tokens, token_spans
from ragtune.superprompt.chunks import ContextChunk
from ragtune.superprompt.reading.cleaning import clean, one_line

CUT = " [...]"
EMPTY = "- none"

_MARKER = re.compile(r"\[\[\s*(?:begin|end)\s+[^\[\]\n]*\]\]")
_HEADING = re.compile(r"\s{0,3}(?:#{1,6}\s+)?\**([^*#:]+?)\**:?\**\s*#*\s*")


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


def into_sections(text: str, names: Sequence[str]) -> dict[str, list[str]]:
    """Return lines by section. A line that is only a section's name opens it; earlier lines belong to the first."""
    known = {name.casefold(): name for name in names}
    lines: dict[str, list[str]] = {name: [] for name in names}
    current = names[0]
    for line in text.split("\n"):
        match = _HEADING.fullmatch(line)
        opened = known.get(match[1].strip().casefold()) if match else None
        if opened is not None:
            current = opened
        elif line.strip():
            lines[current].append(line.rstrip())
    return lines


def sectioned(lines: Mapping[str, Sequence[str]], max_tokens: int) -> tuple[str, bool]:
    """Return the Markdown with each section under ``## NAME``, and whether lines were removed.

    Lines are removed from the end of the longest section until the whole has at most ``max_tokens`` tokens. The last
    remaining line is cut instead. A section without lines holds ``- none``.
    """
    kept = {name: [(line, count_tokens(line)) for line in given] for name, given in lines.items()}
    room = max_tokens - sum(count_tokens(f"## {name}\n{EMPTY}") for name in kept)
    sizes = {name: sum(size for _, size in given) for name, given in kept.items()}
    is_shortened = False
    while sum(sizes.values()) > room:
        is_shortened = True
        longest = max(sizes, key=lambda name: sizes[name])
        line, size = kept[longest].pop()
        sizes[longest] -= size
        if not any(kept.values()):
            rest = bounded(line, room)
            kept[longest] = [(rest, count_tokens(rest))] if rest else []
            break
    text = "\n\n".join(f"## {name}\n" + ("\n".join(line for line, _ in given) or EMPTY) for name, given in kept.items())
    return text, is_shortened
