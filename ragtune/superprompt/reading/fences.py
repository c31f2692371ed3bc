"""Borders that text cannot cross: headings of the blocks, and fences around texts of others."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragtune.llm.prompts import fence
from ragtune.superprompt.reading.text import as_seen, clean, normalize_name, one_line

BLOCKS = ("System", "Prompt", "S_CTX", "Attachments", "Recent Conversation")
"""Names of the blocks of the final prompt in order (rule E12)."""

_NAMES = frozenset(normalize_name(name) for name in BLOCKS)
_CODE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_MARKER = re.compile(r"\[\[\s*(begin|end)\b")


def fenced(text: str, label: str, /, **labels: str) -> str:
    """Return ``text`` behind a fence of :func:`ragtune.llm.prompts.fence`, under a line for each label.

    Lines that name a block's heading or look like a fence's marker get a backslash. Nothing inside can be taken for a
    border.
    """
    head = [f"{name}: {one_line(value)}" for name, value in labels.items()]
    body = "\n".join(_escaped(line, is_quoted=True) for line in clean(text).split("\n"))
    return "\n".join([*head, fence(body, label)])


def blocks(parts: Sequence[tuple[str, str]]) -> str:
    """Return named blocks one after the other, each under ``# NAME``."""
    return "\n\n".join(f"# {name}\n\n{text}" for name, text in parts)


def escape_borders(text: str) -> str:
    """Return ``text`` with a backslash before each line that could be read as a block's heading or a fence's marker.

    Outside fenced code those are all level-1 headings, inside it the headings with a block's name. Lines are compared
    without invisible characters and in compatibility form, so a disguise does not help. Open code is closed, so it
    cannot swallow the next block.
    """
    lines = []
    code = ""
    for line in clean(text).split("\n"):
        lines.append(_escaped(line, is_quoted=bool(code)))
        match = _CODE.match(line)
        if match and not code:
            code = match[1]
        elif match and match[1].startswith(code) and not line[match.end() :].strip():
            code = ""
    return "\n".join([*lines, code] if code else lines)


def _escaped(line: str, is_quoted: bool) -> str:
    seen = (line if line.isascii() else as_seen(line)).strip()
    if seen.startswith("#"):
        title = seen[1:]
        is_heading = not is_quoted and (not title or title[0].isspace())
        return "\\" + line if is_heading or normalize_name(title) in _NAMES else line
    is_underline = not is_quoted and seen != "" and not seen.strip("=")
    return "\\" + line if is_underline or _MARKER.match(seen) else line
