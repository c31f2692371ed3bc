"""Units of plain text (words, sentences, paragraphs), and packing them into chunks."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ragtune.canonical.sentences import sentence_starts
from ragtune.core.arrays import IntArray
from ragtune.core.tokens import token_spans


@dataclass(frozen=True)
class TokenizedText:
    """A text and its tokens; cuts are token numbers, so that counting the tokens of a piece is a subtraction.

    Attributes:
        text: the text.
        starts: shape (tokens,), position of the first character of every token.
        ends: shape (tokens,), position after the last character of every token.
    """

    text: str
    starts: IntArray
    ends: IntArray

    @classmethod
    def of(cls, text: str) -> TokenizedText:
        """The text with its tokens by :func:`ragtune.core.tokens.count_tokens`'s rule."""
        flat = np.fromiter((edge for span in token_spans(text) for edge in span), dtype=np.intp)
        return cls(text, flat[0::2], flat[1::2])

    def __len__(self) -> int:
        """Number of tokens."""
        return len(self.starts)

    def position(self, token: int) -> int:
        """Where a piece begins that begins with this token: white space before it belongs to the piece before."""
        if token == 0:
            return 0
        return int(self.starts[token]) if token < len(self) else len(self.text)

    def tokens_at(self, positions: Iterable[int]) -> IntArray:
        """Numbers of the tokens that start at the given ascending positions."""
        return np.searchsorted(self.starts, np.fromiter(positions, dtype=np.intp))


def pack(
    levels: Sequence[IntArray], low: int, high: int, max_tokens: int, overlap: int = 0
) -> Iterator[tuple[int, int]]:
    """Token ranges that cover ``[low, high)``, none longer than ``max_tokens``, starts and ends strictly ascending.

    Each takes as many whole units as fit and begins with as many of the last units of the range before it as
    ``overlap`` tokens hold. A unit that is too long is cut by the next level on its own, in the end by single tokens,
    and shares nothing with its neighbours.

    Args:
        levels: shape (cuts,) each, ascending token numbers at which units start, coarse level first.
        low: number of the first token.
        high: number after that of the last token, ``> low``.
        max_tokens: the most tokens of a range, >= 1.
        overlap: the most tokens that a range shares with the one before, ``< max_tokens``.
    """
    cuts = _cuts(levels, low, high)
    unit = 0
    while unit < len(cuts) - 1:
        stop = bisect_right(cuts, cuts[unit] + max_tokens) - 1
        if stop == unit:
            stop = unit + 1
            yield from pack(levels[1:], cuts[unit], cuts[stop], max_tokens, overlap)
            unit = stop
        else:
            yield cuts[unit], cuts[stop]
            unit = _next_unit(cuts, unit, stop, max_tokens, overlap)


def _next_unit(cuts: Sequence[int], unit: int, stop: int, max_tokens: int, overlap: int) -> int:
    """The unit that the chunk after ``[unit, stop)`` begins with; it must leave room for the unit at ``stop``."""
    if stop == len(cuts) - 1 or cuts[stop + 1] - cuts[stop] > max_tokens:
        return stop
    return max(unit + 1, bisect_left(cuts, max(cuts[stop] - overlap, cuts[stop + 1] - max_tokens)))


def _cuts(levels: Sequence[IntArray], low: int, high: int) -> Sequence[int]:
    if not levels:
        return range(low, high + 1)
    first, last = np.searchsorted(levels[0], (low + 1, high))
    return [low, *levels[0][first:last].tolist(), high]


_GAP = re.compile(r"\n\s*+")
_LONG_WORD = 8  # tokens; longer runs without white space are addresses, digests, or a script without spaces
_JOINER = "\u200d"
_SKIN_TONES = range(0x1F3FB, 0x1F400)


def words(text: TokenizedText, max_tokens: int) -> IntArray:
    """Tokens at which a window may begin: after white space, and before any character of a long word.

    Long is a word of more than 8 tokens or of more than a window holds. A combining mark, and what a zero-width joiner
    joins, is never parted from the character before it.
    """
    begins = np.ones(len(text), dtype=bool)
    begins[1:] = text.starts[1:] != text.ends[:-1]
    firsts = np.flatnonzero(begins)
    lengths = np.diff(firsts, append=len(text))
    in_long_word = np.repeat(lengths > min(_LONG_WORD, max_tokens), lengths)
    for token in np.flatnonzero(in_long_word & ~begins).tolist():
        begins[token] = _begins_character(text.text, int(text.starts[token]))
    return np.flatnonzero(begins)


def sentences(text: TokenizedText) -> IntArray:
    """Tokens at which a sentence begins, see :func:`ragtune.canonical.sentences.sentence_starts`."""
    return text.tokens_at(sentence_starts(text.text))


def paragraphs(text: TokenizedText) -> IntArray:
    """Tokens that follow an empty line."""
    return text.tokens_at(paragraph_starts(text.text))


def paragraph_starts(text: str) -> Iterator[int]:
    """Position of the first character after every run of empty lines."""
    return (gap.end() for gap in _GAP.finditer(text) if gap.group().count("\n") > 1 and gap.end() < len(text))


def _begins_character(text: str, position: int) -> bool:
    character = text[position]
    if text[position - 1] == _JOINER:
        return False
    if character.isascii() or character.isalnum():
        return True
    extends = unicodedata.category(character).startswith("M") or character == _JOINER
    return not extends and ord(character) not in _SKIN_TONES
