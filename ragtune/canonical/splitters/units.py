"""Units of plain text: words, sentences, paragraphs."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

import numpy as np

from ragtune.canonical.sentences import sentence_starts
from ragtune.canonical.splitters.packing import TokenizedText
from ragtune.core.arrays import IntArray

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
