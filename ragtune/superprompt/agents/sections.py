"""Markdown in fixed sections within a limit of tokens."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ragtune.core.tokens import count_tokens
from ragtune.superprompt.agents.texts import bounded

EMPTY = "- none"

_HEADING = re.compile(r"\s{0,3}(?:#{1,6}\s+)?\**([^*#:]+?)\**:?\**\s*#*\s*")


def into_sections(text: str, names: Sequence[str]) -> dict[str, list[str]]:
    """Lines by section: a line that is a section's name alone, however marked, opens it; before any is the first."""
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
    """The Markdown, each section under ``## NAME`` and never empty, and whether lines had to go.

    Lines go from the end of the section that has the most tokens, until the whole has at most ``max_tokens``; the last
    line of all is cut instead.
    """
    kept = {name: [(line, count_tokens(line)) for line in given] for name, given in lines.items()}
    frame = sum(count_tokens(f"## {name}\n{EMPTY}") for name in kept)
    room = max_tokens - frame
    sizes = {name: sum(size for _, size in given) for name, given in kept.items()}
    shortened = False
    while sum(sizes.values()) > room:
        shortened = True
        longest = max(sizes, key=lambda name: sizes[name])
        line, size = kept[longest].pop()
        sizes[longest] -= size
        if not any(kept.values()):
            rest = bounded(line, room)
            kept[longest] = [(rest, count_tokens(rest))] if rest else []
            break
    text = "\n\n".join(f"## {name}\n" + ("\n".join(line for line, _ in given) or EMPTY) for name, given in kept.items())
    return text, shortened
