"""Finds ids of two sides that are the same in another form, e.g. ``1.0`` and ``1``, or ``doc-3`` and ``3``."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from ragtune.core.plain import quoted

_DECIMALS = re.compile(r"([+-]?\d+)\.0+([eE]\+?0+)?")
_INVISIBLE = "\ufeff\u200b\u200c\u200d\u2060\u00ad\0"

_TELLING = 3
"""Characters of an id that a single pair needs to be no coincidence."""

_LONGEST = 100
"""Characters of an id that are looked at for what stands before and behind another one."""


def _without_decimals(text: str) -> str:
    found = _DECIMALS.fullmatch(text)
    return found[1] if found else text


def _without_zeros(text: str) -> str:
    return text.lstrip("0") or "0" if text.isdecimal() else text


def _without_blanks(text: str) -> str:
    return "".join(character for character in text if not character.isspace() and character not in _INVISIBLE)


def _composed(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


_FORMS: Mapping[str, Callable[[str], str]] = {
    "one is written with decimals, as pandas writes a column that lacks a value": _without_decimals,
    "they differ in blanks or invisible characters": _without_blanks,
    "they differ in upper and lower case": str.casefold,
    "one has zeros before the number": _without_zeros,
    "one has quotes around it": lambda text: text.strip("'\"`"),
    "they differ in the Unicode form": _composed,
}


def other_form(ours: Sequence[str], theirs: Sequence[str]) -> str:
    """In what form ids of the one side are ids of the other, naming one of each; empty if in none.

    Args:
        ours, theirs: ids that the other side does not have.
    """
    if not ours or not theirs:
        return ""
    enough = max(1, min(len(ours), len(theirs)) // 2)
    for how, form in _FORMS.items():
        if pair := _alike(ours, theirs, form, enough):
            return _said(*pair, how)
    if pair := _alike(ours, theirs, _plain, enough):
        return _said(*pair, "they differ in decimals, blanks, case or zeros")
    for with_more, others in ((ours, theirs), (theirs, ours)):
        if found := _affixed(with_more, others, enough):
            longer, shorter, how = found
            return _said(*((longer, shorter) if with_more is ours else (shorter, longer)), how)
    return ""


def _said(one: str, other: str, how: str) -> str:
    return f"{quoted(one)} and {quoted(other)} look like the same id: {how}"


def _plain(text: str) -> str:
    for form in _FORMS.values():
        text = form(text)
    return text


def _alike(
    ours: Sequence[str], theirs: Sequence[str], form: Callable[[str], str], enough: int
) -> tuple[str, str] | None:
    """The first pair that has one form, where there are enough of them."""
    known = {form(one): one for one in reversed(theirs)}
    pairs = [(one, known[form(one)]) for one in ours if form(one) in known]
    return pairs[0] if len(pairs) >= enough else None


def _affixed(longer: Sequence[str], shorter: Sequence[str], enough: int) -> tuple[str, str, str] | None:
    """An id of the one side that is an id of the other with a text before or behind it, which most of them have."""
    known = {_without_zeros(one.casefold()): one for one in reversed(shorter)}
    votes: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], tuple[str, str]] = {}
    folded = [one.casefold() for one in longer]
    common = _common_start(folded), _common_start([one[::-1] for one in folded])[::-1]
    for one, text in zip(longer, folded, strict=True):
        for before, behind in _cuts(text[:_LONGEST], *(part[:_LONGEST] for part in common)):
            core = text[len(before) : len(text) - len(behind)]
            if (core := _without_zeros(core)) in known:
                votes[before, behind] += 1
                first.setdefault((before, behind), (one, known[core]))
    if not votes:
        return None
    affix, count = max(votes.items(), key=lambda item: (item[1], -len("".join(item[0]))))
    one, other = first[affix]
    # One short id is in many a long one by chance.
    if count < enough or (count == 1 and (len(other) < _TELLING or 2 * len(other) < len(one))):
        return None
    parts = [f"{quoted(text)} {where} it" for text, where in zip(affix, ("before", "behind"), strict=True) if text]
    return one, other, f"one has {' and '.join(parts)}"


def _common_start(texts: Sequence[str]) -> str:
    first, last = min(texts), max(texts)
    return first[: next((i for i, pair in enumerate(zip(first, last, strict=False)) if len(set(pair)) > 1), len(first))]


def _cuts(text: str, prefix: str, suffix: str) -> list[tuple[str, str]]:
    """What may stand before and behind an id: any text on one side, or on both a part of what all of them have."""
    one_side = [(text[:cut], "") for cut in range(1, len(text))] + [("", text[cut:]) for cut in range(1, len(text))]
    befores = [prefix[:cut] for cut in range(1, len(prefix) + 1)]
    behinds = [suffix[cut:] for cut in range(len(suffix))]
    both = [(a, b) for a in befores for b in behinds if len(a) + len(b) < len(text)]
    return one_side + both
