"""Sentences of a Markdown text that can be quoted alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragtune.canonical.sentences import sentence_starts
from ragtune.superprompt.reading.cleaning import one_line

_FENCE = re.compile(r"\s*(?P<marks>`{3,}|~{3,})(?P<info>[^`]*)$")
_NO_PROSE = re.compile(r" {0,3}(?:#{1,6}(?:\s|$)|\[[^\]]+\]:\s|<!--)|\W*$")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)\s*$")
_QUOTE = re.compile(r"\s*(?:>\s?)+")
_ITEM = re.compile(r"\s*(?:[-*+\u2022]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?")
_ROW = re.compile(r"\s*\|(.*)\|\s*$")
_RULE = re.compile(r"[\s|:-]*-[\s|:-]*$")


def sentences(text: str, begins_inside: bool = False) -> list[str]:
    """Return sentences, list items and rows of tables in order, each on one line.

    Headings, code, heads and rules of tables, and introductions ("The steps:") are left out. For a later part of a text
    (``begins_inside``) so is an incomplete sentence, row or code at its beginning.
    """
    found: list[str] = []
    for number, unit in enumerate(_units(text, begins_inside)):
        starts = [0, *sentence_starts(unit)]
        for start, end in zip(starts, [*starts[1:], len(unit)], strict=True):
            sentence = one_line(unit[start:end])
            is_rest = begins_inside and number == 0 and start == 0 and sentence[:1].islower()
            if not (is_rest or sentence.endswith((":", "\uff1a")) or not any(map(str.isalnum, sentence))):
                found.append(sentence)
    return found


def _units(text: str, begins_inside: bool) -> Iterator[str]:
    """Paragraphs, list items and rows."""
    unit: list[str] = []
    for line in _outside_code(text.split("\n"), begins_inside):
        row = _ROW.match(line)
        if _UNDERLINE.match(line) and unit:
            unit.clear()  # the line above it was a heading
        elif row and _RULE.match(line):
            unit.clear()  # the row above it was the table's head
        elif not line.strip() or _NO_PROSE.match(line) or row or _ITEM.match(line):
            yield "\n".join(unit)
            cells = " | ".join(filter(None, map(str.strip, row[1].split("|")))) if row else ""
            unit = [cells] if row else [] if _NO_PROSE.match(line) else [_ITEM.sub("", line, count=1)]
        elif line.strip().startswith("|") or line.rstrip().endswith("|"):
            yield "\n".join(unit)
            unit = []  # the line itself is a row that the border of the text cuts
        else:
            unit.append(line)
    yield "\n".join(unit)


def _outside_code(lines: list[str], begins_inside: bool) -> Iterator[str]:
    fences = [(number, match) for number, line in enumerate(lines) if (match := _FENCE.match(line))]
    # Of an odd number of fences the first closes earlier code, unless it names a language.
    closes = begins_inside and len(fences) % 2 == 1 and not fences[0][1]["info"].strip()
    begin = fences[0][0] + 1 if closes else 0
    code = ""
    for line in lines[begin:]:
        match = _FENCE.match(line)
        if match and not code:
            code = match["marks"]
            yield ""
        elif match and match["marks"].startswith(code) and not match["info"].strip():
            code = ""
        elif not code:
            yield _QUOTE.sub("", line)
