"""The sentences of a Markdown page: its prose only, without code, tables, headings and links' addresses."""

from __future__ import annotations

import re

NO_PROSE = re.compile(
    r"^:::.*|^\{\{.*|^ *\|.*|^#+ .*|^    (?:ragtune|python|SOURCE:|SPAN:|\[\[|\.\.\.).*",
    flags=re.MULTILINE,
)
"""API directives, tables, headings and indented code, a line each."""

ITEM = r"\s*(?:[-*]|\d+\.)\s+"
"""What begins an item of a list."""


def sentences(text: str) -> list[list[str]]:
    """The words of every sentence of at least three words; inline code is one word."""
    text = NO_PROSE.sub("\n", re.sub(r"```.*?```|<!--.*?-->", "\n\n", text, flags=re.DOTALL))
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    found = []
    for block in re.split(rf"\n\s*\n|\n(?={ITEM})", text):
        line = re.sub(r"`[^`]*`", "CODE", re.sub(rf"^{ITEM}", "", block).replace("\n", " "))
        found += [re.findall(r"[A-Za-z][\w'-]*", part) for part in re.split(r"(?<=[.?!:])\s+(?=[A-Z*\"(])", line)]
    return [words for words in found if len(words) > 2]
