"""Chunk (rules D3 and D16): texts cut into units of retrieval, the same way everywhere."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ragtune.canonical.normalization import NormalizedText, check_metadata, check_string, normalize
from ragtune.canonical.policies import ChunkPolicy
from ragtune.canonical.splitters.markdown import Outline
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
    if isinstance(tags, str):
        raise InputError(f"tags={tags!r}: allowed is a sequence of strings")
    sorted_tags = tuple(sorted({check_string(tag, "tag") for tag in tags}))
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
