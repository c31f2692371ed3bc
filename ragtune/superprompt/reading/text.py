"""Text that every stage may rely on, and borders that text cannot cross: headings of blocks and fences."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from ragtune.llm.prompts import fence
from ragtune.llm.types import well_formed

BLOCKS = ("System", "Prompt", "S_CTX", "Attachments", "Recent Conversation")
"""Names of the blocks of the final prompt in order (rule E12)."""

_LINE_ENDS = re.compile("\r\n|[\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029]")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1b\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff]")
_DECORATION = re.compile(r"^[\W_]*(?:\d{1,3}[.)]\s+)?[\W_]*|[\W_]+$")
_GAPS = re.compile(r"[\s_\-]+")
_INVISIBLE = ("Cc", "Cf", "Co", "Cn")
_CODE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_MARKER = re.compile(r"\[\[\s*(begin|end)\b")


def clean(text: str) -> str:
    r"""Return ``text`` with ``\n`` as the only line end and without control, override and byte order marks.

    Joiners stay, because Persian and emoji need them.
    """
    return _CONTROLS.sub("", _LINE_ENDS.sub("\n", well_formed(text)))


def one_line(text: str) -> str:
    """Return ``text`` on one line: runs of white space become one space."""
    return " ".join(clean(text).split())


def normalize_name(name: str) -> str:
    """Return a header's name without case, width, numbering, emphasis, extra spacing and invisible characters.

    A letter of another script that only looks the same stays, so a homoglyph is a different name.
    """
    plain = _DECORATION.sub("", unicodedata.normalize("NFKC", as_seen(name).casefold()))
    return _GAPS.sub(" ", plain).strip()


def as_seen(text: str) -> str:
    """Return ``text`` in compatibility form and without invisible characters."""
    normal = unicodedata.normalize("NFKC", text)
    return "".join(char for char in normal if char in "\t\n" or unicodedata.category(char) not in _INVISIBLE)


_NAMES = frozenset(normalize_name(name) for name in BLOCKS)


def fenced(text: str, label: str, /, **labels: str) -> str:
    """Return ``text`` behind a fence of :func:`ragtune.llm.prompts.fence`, under a line for each label.

    Lines that name a block's heading or look like a fence's marker get a backslash.
    """
    head = [f"{name}: {one_line(value)}" for name, value in labels.items()]
    body = "\n".join(_escaped(line, is_quoted=True) for line in clean(text).split("\n"))
    return "\n".join([*head, fence(body, label)])


def blocks(parts: Sequence[tuple[str, str]]) -> str:
    """Return named blocks one after the other, each under ``# NAME``."""
    return "\n\n".join(f"# {name}\n\n{text}" for name, text in parts)


def escape_borders(text: str) -> str:
    """Return ``text`` with a backslash before each line that could be read as a block's heading or a fence's marker.

    Outside code those are all level-1 headings, inside it the headings with a block's name. Open code is closed.
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
