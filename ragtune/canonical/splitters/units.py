"""Units of plain text (words, sentences, paragraphs), and packing them into chunks."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ragtune.core.arrays import IntArray
from ragtune.core.tokens import token_edges

_TITLES = frozenset(
    re.findall(r"\w+", "mr mrs ms mx dr prof rev hon st mt gen sen rep gov sgt capt lt cmdr col maj vs cf viz")
)
"""Abbreviations that stand before something: a sentence never ends with them."""

_MAY_END = frozenset(
    re.findall(
        r"\w+",
        "etc al inc ltd co corp jr sr dept univ approx est resp no nos vol vols ed eds ch sec fig figs eq eqs ref refs "
        "tab art pp jan feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri sat sun",
    )
)
"""Abbreviations with which a sentence ends only if an upper-case letter follows."""

# Runs are possessive and consumed whole, so that the scan is linear in any text.
_EDGE = re.compile(
    r"(?P<stop>(?:[.!?…‼⁇⁈⁉؟۔।॥።។။。｡！？]|．(?!\d))++)"  # noqa: RUF001
    "(?P<close>[\"'”’»›)\\]}>」』）】》〉*`~\u200e\u200f\u202a-\u202e\u2066-\u2069\ufe00-\ufe0f]*+)"  # noqa: RUF001
    r"(?P<space>\s*+)"
    r"|(?P<gap>\n\s*+)"
)
_UNSPACED = frozenset("。｡．！？")  # noqa: RUF001
_LIST_ITEM = re.compile(r"(?:[-*+•‣◦]|\d{1,3}[.)]|#{1,6})[^\S\n]")
_DOTS = re.compile(r"…|[.…]{2,}")
_LAST_WORD = re.compile(r"(?:\w+\.)*\w+\Z")
_INITIALS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")
_REACH = 16  # characters before a full stop that can matter


def sentence_starts(text: str) -> Iterator[int]:
    """Position of every sentence's first character but the first sentence's, ascending; never in white space.

    A sentence ends, with the white space after it:

    - at an empty line, and before a line that begins a list item or a Markdown heading;
    - after a run of ``. ! ? …`` or of a script's own marks, with what closes it (quotes, brackets), before white space;
    - after a run with an East Asian full-width mark.

    Dots (``...``) and closed marks do not count before a lower-case letter. A full stop does not count after a title,
    initials and dotted abbreviations, after other abbreviations unless an upper-case letter follows, and after a number
    of up to three digits that begins its line.
    """
    first = len(text) - len(text.lstrip())
    for edge in _EDGE.finditer(text):
        if first < edge.end() < len(text) and _is_boundary(text, edge):
            yield edge.end()


def _is_boundary(text: str, edge: re.Match[str]) -> bool:
    stop, space = edge["stop"], edge["space"] or edge["gap"] or ""
    breaks = space.count("\n")
    if breaks > 1 or (breaks == 1 and _LIST_ITEM.match(text, edge.end())):
        return True
    if stop is None:
        return False
    if not _UNSPACED.isdisjoint(stop):
        return True
    if not space or (text[edge.end()].islower() and (edge["close"] or _DOTS.fullmatch(stop))):
        return False
    return stop != "." or not _is_abbreviation(text, edge.start(), edge.end())


def _is_abbreviation(text: str, stop: int, following: int) -> bool:
    """Whether the full stop at ``stop`` belongs to the word before it rather than to the sentence."""
    reach = max(0, stop - _REACH)
    found = _LAST_WORD.search(text[reach:stop])
    if found is None:
        return False
    word = found.group().lower()
    if word in _TITLES or (_INITIALS.fullmatch(word) and word.upper() != word):
        return True
    if word in _MAY_END:
        return not text[following].isupper()
    return word.isdecimal() and len(word) <= 3 and _begins_line(text, reach, reach + found.start())


def _begins_line(text: str, reach: int, position: int) -> bool:
    line = text.rfind("\n", reach, position)
    if line < 0 and reach > 0:
        return False
    return not text[line + 1 : position].strip()


@dataclass(frozen=True)
class TokenizedText:
    """A text with the start and end of its tokens, shape (tokens,) each. Cuts are token numbers."""

    text: str
    starts: IntArray
    ends: IntArray

    @classmethod
    def of(cls, text: str) -> TokenizedText:
        """The text with its tokens by :func:`ragtune.core.tokens.count_tokens`'s rule."""
        return cls(text, *token_edges(text))

    def __len__(self) -> int:
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
    Levels are ascending token numbers at which units start, shape (cuts,) each, the coarse level first.
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
    """Tokens at which a window may begin: after white space, and before any character of a word that is too long."""
    begins = np.ones(len(text), dtype=bool)
    begins[1:] = text.starts[1:] != text.ends[:-1]
    firsts = np.flatnonzero(begins)
    lengths = np.diff(firsts, append=len(text))
    in_long_word = np.repeat(lengths > min(_LONG_WORD, max_tokens), lengths)
    if text.text.isascii():
        return np.flatnonzero(begins | in_long_word)
    for token in np.flatnonzero(in_long_word & ~begins).tolist():
        begins[token] = _begins_character(text.text, int(text.starts[token]))
    return np.flatnonzero(begins)


def sentences(text: TokenizedText) -> IntArray:
    """Tokens at which a sentence begins, see :func:`ragtune.canonical.splitters.units.sentence_starts`."""
    return text.tokens_at(sentence_starts(text.text))


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
