"""Where sentences end: one documented rule for chunking and for compression."""

from __future__ import annotations

import re
from collections.abc import Iterator

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

    - at an empty line, and before a line that begins a list item or a Markdown heading (other single line breaks are
      white space, since texts are hard-wrapped);
    - after a run of ``. ! ? …`` or of a script's own full stop or question mark (Arabic, Urdu, Devanagari, Ethiopic,
      Khmer, Burmese), with the quotes, brackets and direction marks that close it, if white space follows: so decimals,
      versions and addresses stay whole;
    - after a run with an East Asian full-width mark, white space or not.

    Of these, dots (``...``) and marks with something that closes them do not count before a lower-case letter. A single
    full stop does not count after a title (``Dr.``), after initials and dotted abbreviations (``J.``, ``e.g.``,
    ``U.S.``), after other common abbreviations (``etc.``, ``Fig.``) unless an upper-case letter follows, and after a
    number of up to three digits that begins its line.
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
