"""Sections of a Markdown text (CommonMark 0.31: ATX headings 4.2, setext headings 4.3, fenced code blocks 4.5)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_ATX = re.compile(r" {0,3}(?P<marks>#{1,6})(?:[ \t]+(?P<title>.*))?$")
_ATX_END = re.compile(r"(?:^|[ \t])#+[ \t]*$")
_SETEXT = re.compile(r" {0,3}(?P<mark>=|-)(?P=mark)*[ \t]*$")
_FENCE = re.compile(r" {0,3}(?P<marks>`{3,}|~{3,})(?P<info>.*)$")
_BREAK = re.compile(r" {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$")
_CONTAINER = re.compile(r" {4}|\t| {0,3}(?:>|[-*+](?:[ \t]|$)|\d{1,9}[.)](?:[ \t]|$))")
_FRONT_MATTER = re.compile(r"---[ \t]*\n(?:[^\S\n]*+\S.*\n)*?(?:---|\.\.\.)[ \t]*(?:\n|\Z)")
_TITLE_MAX = 200  # characters; every chunk of a section carries its titles


@dataclass(frozen=True)
class Heading:
    """A heading from its first character to after its last line, with its level (1 to 6) and text without marks."""

    start: int
    end: int
    level: int
    title: str


@dataclass
class Outline:
    """The headings and the fenced code blocks (start and end) of a text, by one pass over its lines."""

    text: str
    headings: list[Heading] = field(default_factory=list)
    fences: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._fence, self._fence_start = "", 0
        self._paragraph: int | None = None
        self._contained = False
        matter = _FRONT_MATTER.match(self.text)
        for start, line in _lines(self.text, matter.end() if matter else 0):
            if self._fence:
                self._close_fence(start, line)
            elif not self._open_fence(start, line) and not self._atx(start, line) and not self._setext(start, line):
                self._text(start, line)
        if self._fence:
            self._end_fence(len(self.text))

    def sections(self) -> list[tuple[int, list[str]]]:
        """The start of each section, and the titles of the headings that it is under, outermost first, its own last.

        A heading with nothing under it but a deeper heading begins that one's section.
        """
        found: list[tuple[int, list[str]]] = [(0, [])]
        path: list[Heading] = []
        for place, heading in enumerate(self.headings):
            body_before = self.text[self.headings[place - 1].end if place else 0 : heading.start]
            deeper = not path or heading.level > path[-1].level
            path = [above for above in path if above.level < heading.level] + [heading]
            merged = not body_before.strip() and deeper
            start = found.pop()[0] if merged else heading.start
            found.append((start, [above.title for above in path]))
        return found

    def in_fence(self, positions: Iterator[int]) -> Iterator[tuple[int, bool]]:
        """The ascending positions, each with whether it lies inside a fenced code block."""
        fences = iter([*self.fences, (len(self.text), len(self.text))])
        start, end = next(fences)
        for position in positions:
            while position >= end and start < len(self.text):
                start, end = next(fences)
            yield position, start < position < end

    def _open_fence(self, start: int, line: str) -> bool:
        found = _FENCE.match(line)
        if found is None or (found["marks"][0] == "`" and "`" in found["info"]):
            return False
        self._fence, self._fence_start = found["marks"], start + found.start("marks")
        self._paragraph, self._contained = None, False
        return True

    def _close_fence(self, start: int, line: str) -> None:
        found = _FENCE.match(line)
        if found is not None and found["marks"].startswith(self._fence) and not found["info"].strip():
            self._end_fence(start + len(line))

    def _end_fence(self, end: int) -> None:
        self.fences.append((self._fence_start, end))
        self._fence = ""

    def _atx(self, start: int, line: str) -> bool:
        found = _ATX.match(line)
        if found is None:
            return False
        title = _ATX_END.sub("", found["title"] or "").strip()
        self._add(start, start + len(line), len(found["marks"]), title)
        return True

    def _setext(self, start: int, line: str) -> bool:
        found = _SETEXT.match(line)
        if found is None or self._paragraph is None:
            return False
        title = " ".join(self.text[self._paragraph : start].split())
        self._add(self._paragraph, start + len(line), 1 if found["mark"] == "=" else 2, title)
        return True

    def _add(self, start: int, end: int, level: int, title: str) -> None:
        indent = len(self.text[start:end]) - len(self.text[start:end].lstrip())
        self.headings.append(Heading(start + indent, end, level, title[:_TITLE_MAX].rstrip()))
        self._paragraph, self._contained = None, False

    def _text(self, start: int, line: str) -> None:
        if not line.strip() or _BREAK.match(line):
            self._paragraph, self._contained = None, False
        elif self._paragraph is None and not self._contained:
            # A list item, a quotation or indented code: what follows it at once is no paragraph of the document's own.
            self._contained = _CONTAINER.match(line) is not None
            self._paragraph = None if self._contained else start


def _lines(text: str, start: int) -> Iterator[tuple[int, str]]:
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield start, text[start:end]
        start = end + 1
