"""Borders that text cannot cross: the headings of the blocks, and fences round what was not written for this prompt."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from ragtune.llm.prompts import fence
from ragtune.superprompt.reading.cleaning import clean, one_line
from ragtune.superprompt.reading.names import normalize_name

BLOCKS = ("System", "Prompt", "S_CTX", "Attachments", "Recent Conversation")
"""Names of the blocks of the final prompt, in the agreed order (rule E12)."""

_NAMES = frozenset(normalize_name(name) for name in BLOCKS)
_INVISIBLE = ("Cc", "Cf", "Co", "Cn")
_CODE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_MARKER = re.compile(r"\[\[\s*(begin|end)\b")


def fenced(text: str, label: str, /, **labels: str) -> str:
    """``text`` behind a fence of :func:`ragtune.llm.prompts.fence`, under a line for each label.

    The text is quoted as it is but for lines that name a block's heading or look like a fence's marker: those get a
    back slash, so that nothing inside can be taken for a border.
    """
    head = [f"{name}: {one_line(value)}" for name, value in labels.items()]
    body = "\n".join(_escaped(line, quoted=True) for line in clean(text).split("\n"))
    return "\n".join([*head, fence(body, label)])


def blocks(parts: Sequence[tuple[str, str]]) -> str:
    """Named blocks one after the other, each under ``# NAME``."""
    return "\n\n".join(f"# {name}\n\n{text}" for name, text in parts)


def escape_borders(text: str) -> str:
    """``text`` in which no line can be read as a block's heading or a fence's marker: a back slash goes before those.

    Outside fenced code that is every level-1 heading, inside it those with a block's name. Lines are judged as a reader
    sees them, without invisible characters and in their compatibility form, so that a full-width or zero-width disguise
    does not help. Code that is left open is closed, so that it cannot swallow the next block.
    """
    lines = []
    code = ""
    for line in clean(text).split("\n"):
        lines.append(_escaped(line, quoted=bool(code)))
        match = _CODE.match(line)
        if match and not code:
            code = match[1]
        elif match and match[1].startswith(code) and not line[match.end() :].strip():
            code = ""
    return "\n".join([*lines, code] if code else lines)


def _escaped(line: str, quoted: bool) -> str:
    seen = (line if line.isascii() else _as_seen(line)).strip()
    if seen.startswith("#"):
        title = seen[1:]
        heading = not quoted and (not title or title[0].isspace())
        return "\\" + line if heading or normalize_name(title) in _NAMES else line
    underlines = not quoted and seen != "" and not seen.strip("=")
    return "\\" + line if underlines or _MARKER.match(seen) else line


def _as_seen(line: str) -> str:
    normal = unicodedata.normalize("NFKC", line)
    return "".join(char for char in normal if unicodedata.category(char) not in _INVISIBLE)
