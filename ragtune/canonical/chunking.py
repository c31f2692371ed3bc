"""Chunk (rules D3 and D16): texts cut into units of retrieval, the same way everywhere."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ragtune.canonical.normalization import NormalizedText, check_metadata, check_string, normalize
from ragtune.canonical.policies import ChunkPolicy
from ragtune.canonical.splitters.units import TokenizedText, pack, paragraph_starts, sentences, words
from ragtune.canonical.types import Chunk, Segment, SourceDocument
from ragtune.core.arrays import IntArray
from ragtune.core.errors import InputError

HEADINGS = "headings"
"""Metadata key of the titles of the Markdown headings that a chunk is under, outermost first."""

_DEFAULT = ChunkPolicy()


def chunk(
    text_or_segments: str | bytes | Sequence[Segment] | NormalizedText | SourceDocument,
    policy: ChunkPolicy = _DEFAULT,
    *,
    doc_id: str = "",
    tags: Sequence[str] = (),
    metadata: dict[str, Any] | None = None,
) -> list[Chunk]:
    """Cut a document into chunks of at most ``policy.max_tokens`` tokens; deterministic.

    Spans count characters of the normalized text. Without overlap they tile it: the first starts at 0, each next one
    where the one before ends, the last ends with the text. With overlap they cover it, and starts and ends strictly
    ascend. White space between two units belongs to the first, so a chunk begins with a visible character (the first
    one takes what white space leads the text).

    - ``tokens``: windows of whole words; only a run of more than 8 or ``max_tokens`` tokens without white space is
      cut inside (an address, or a script without spaces), not between a character and its combining marks.
    - ``sentences``: as many whole sentences as fit, see :func:`ragtune.canonical.splitters.units.sentence_starts`.
    - ``paragraphs``: as many whole paragraphs (parted by empty lines) as fit.
    - ``markdown``: a chunk a section, cut by paragraphs if it is too long, but not inside fenced code; a heading with
      nothing under it but a deeper heading goes with that one. Chunk metadata gain ``headings``, the path of titles.

    A unit that is too long is cut on its own by the next finer unit: section, paragraph, sentence, word, and in the
    end token, so that the limit always holds. Overlap is in whole units too: a chunk begins with as many of the last
    units of the one before it as ``overlap_tokens`` hold; never across sections or the edge of a unit that was cut.

    Args:
        text_or_segments: normalized first unless it is a :class:`NormalizedText`.
        policy: how the text is cut.
        doc_id: document id that every chunk gets.
        tags: tags that every chunk gets, sorted and without repetitions.
        metadata: metadata that every chunk gets; those of the segment of a chunk's first visible character win.

    Returns:
        Chunks with ``chunk_index`` 0, 1, ...; none for a text without a visible character.

    Raises:
        InputError: on bytes that are not UTF-8, metadata that are no JSON object, ids or tags that cannot be stored,
            and on ids, tags or metadata beside a :class:`SourceDocument`, which has its own.

    Examples:
        >>> from ragtune.canonical.chunking import chunk
        >>> from ragtune.canonical.policies import ChunkPolicy
        >>> policy = ChunkPolicy(method="sentences", max_tokens=3)
        >>> [part.content for part in chunk("One two. Three four.", policy, doc_id="d1")]
        ['One two. ', 'Three four.']
    """
    if isinstance(text_or_segments, SourceDocument):
        if doc_id or tags or metadata:
            raise InputError("doc_id, tags and metadata: allowed only without a SourceDocument, which has its own")
        given = text_or_segments
        text_or_segments, doc_id, tags, metadata = given.content, given.doc_id, given.tags, given.metadata
    check_string(doc_id, "doc_id")
    sorted_tags = _check_tags(tags)
    shared = check_metadata({} if metadata is None else metadata)
    source = text_or_segments if isinstance(text_or_segments, NormalizedText) else normalize(text_or_segments)
    tokenized = TokenizedText.of(source.text)
    segment_starts = [span.start for span in source.segments]
    chunks = []
    for index, (low, high, found) in enumerate(_split(tokenized, policy)):
        start, end = tokenized.position(low), tokenized.position(high)
        segment = bisect_right(segment_starts, int(tokenized.starts[low])) - 1
        own = source.segments[segment].metadata if segment >= 0 else {}
        chunks.append(
            Chunk(
                doc_id=doc_id,
                chunk_index=index,
                content=source.text[start:end],
                tags=sorted_tags,
                metadata={**shared, **own, **found},
                start=start,
                end=end,
            )
        )
    return chunks


def _check_tags(tags: Sequence[str]) -> tuple[str, ...]:
    if isinstance(tags, str):
        raise InputError(f"tags={tags!r}: allowed is a sequence of strings")
    return tuple(sorted({check_string(tag, "tag") for tag in tags}))


def _split(text: TokenizedText, policy: ChunkPolicy) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Token ranges of the chunks, each with the metadata that the method found."""
    if not len(text):
        return
    if policy.method == "markdown":
        yield from _split_markdown(text, policy)
        return
    for low, high in pack(_levels(text, policy), 0, len(text), policy.max_tokens, policy.overlap_tokens):
        yield low, high, {}


def _levels(text: TokenizedText, policy: ChunkPolicy) -> list[IntArray]:
    levels = [words(text, policy.max_tokens)]
    if policy.method != "tokens":
        levels.insert(0, sentences(text))
    if policy.method == "paragraphs":
        levels.insert(0, text.tokens_at(paragraph_starts(text.text)))
    return levels


def _split_markdown(text: TokenizedText, policy: ChunkPolicy) -> Iterator[tuple[int, int, dict[str, Any]]]:
    outline = Outline(text.text)
    starts = outline.in_fence(paragraph_starts(text.text))
    outside = text.tokens_at(position for position, fenced in starts if not fenced)
    levels = [outside, *_levels(text, policy)]
    sections = outline.sections()
    cuts = np.append(text.tokens_at(start for start, _ in sections), len(text)).tolist()
    for (_, headings), low, high in zip(sections, cuts, cuts[1:], strict=False):
        if low == high:  # an empty preamble
            continue
        for start, end in pack(levels, low, high, policy.max_tokens, policy.overlap_tokens):
            yield start, end, {HEADINGS: headings}


# CommonMark 0.31: ATX headings 4.2, setext headings 4.3, fenced code blocks 4.5
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
