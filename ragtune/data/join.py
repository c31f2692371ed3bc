"""How many ids two sides have in common: judgments and queries, queries and runs, candidates and scores."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice

from pydantic import BaseModel, ConfigDict

from ragtune.core.errors import DatasetError
from ragtune.core.plain import quoted

_LOOKED_AT = 500
"""Ids of each side that are compared to find another form."""

_TELLING = 3
"""Characters of an id that a single pair needs to be no coincidence."""

_LONGEST = 100
"""Characters of an id that are tried as a prefix or suffix."""

_DECIMALS = re.compile(r"([+-]?\d+)\.0+([eE]\+?0+)?")
_INVISIBLE = "\ufeff\u200b\u200c\u200d\u2060\u00ad\0"


class Join(BaseModel):
    """How many ids two sides have in common.

    Attributes:
        left, right: what the ids are of, in the plural and the singular, e.g. ``judged queries`` and ``run bm25.run``.
        left_size, right_size: number of ids of each side.
        matched: number of ids of the left side that the right side has.
        left_only: an id of the left side that the right side lacks; None if there is none.
        right_only: the reverse.
        hint: how ids of one side look like those of the other in another form; empty if they do not.
    """

    left: str
    right: str
    left_size: int
    right_size: int
    matched: int
    left_only: str | None = None
    right_only: str | None = None
    hint: str = ""

    model_config = ConfigDict(frozen=True, extra="allow")

    @property
    def missing(self) -> int:
        """Ids of the left side that the right side lacks."""
        return self.left_size - self.matched

    @property
    def share(self) -> float:
        """The share of the left side that is matched, in [0, 1]."""
        return self.matched / self.left_size if self.left_size else 1.0

    @property
    def gap(self) -> str:
        """A description of the missing ids that follows their number in a message."""
        return (
            f"of {self.left_size} {self.left} are missing in {self.right}, e.g. {quoted(self.left_only)}: it has "
            f"{self.right_size}, {self.matched} of them match{self.hint}"
        )

    def require_any(self) -> Join:
        """Return the join itself, if the sides have an id in common."""
        if self.matched or not self.left_size:
            return self
        other = f", e.g. {quoted(self.right_only)}" if self.right_only is not None else ""
        raise DatasetError(
            f"none of the {self.left_size} {self.left}, e.g. {quoted(self.left_only)}, is in {self.right}, which has "
            f"{self.right_size}{other}{self.hint}"
        )


def joined(left: str, left_ids: Collection[str], right: str, right_ids: Collection[str]) -> Join:
    """Count the ids of the left side that the right side has."""
    matched = sum(one in right_ids for one in left_ids)
    join = Join(left=left, right=right, left_size=len(left_ids), right_size=len(right_ids), matched=matched)
    if not join.missing:
        return join
    ours, theirs = _without(left_ids, right_ids), _without(right_ids, left_ids)
    apart = {"left_only": ours[0], "right_only": theirs[0] if theirs else None, "hint": form_hint(ours, theirs)}
    return join.model_copy(update=apart)


def _without(ids: Iterable[str], others: Collection[str]) -> list[str]:
    return list(islice((one for one in ids if one not in others), _LOOKED_AT))


def form_hint(ours: Iterable[str], theirs: Iterable[str]) -> str:
    """Return the end of a message that names both forms, where ids of two sides are the same in another form."""
    ours, theirs = list(islice(ours, _LOOKED_AT)), list(islice(theirs, _LOOKED_AT))
    if not ours or not theirs:
        return ""
    enough = max(1, min(len(ours), len(theirs)) // 2)
    for how, form in _FORMS.items():
        known = {form(one): one for one in reversed(theirs)}
        pairs = [(one, known[form(one)]) for one in ours if form(one) in known]
        if len(pairs) >= enough:
            return _hint(*pairs[0], how)
    if found := _affixed(ours, theirs, enough):
        longer, shorter, how = found
        return _hint(longer, shorter, how)
    if found := _affixed(theirs, ours, enough):
        longer, shorter, how = found
        return _hint(shorter, longer, how)
    return ""


def _hint(one: str, other: str, how: str) -> str:
    return f"; {quoted(one)} and {quoted(other)} look like the same id: {how}"


def _without_decimals(text: str) -> str:
    found = _DECIMALS.fullmatch(text)
    return found[1] if found else text


def _without_zeros(text: str) -> str:
    return text.lstrip("0") or "0" if text.isdecimal() else text


def _without_blanks(text: str) -> str:
    return "".join(character for character in text if not character.isspace() and character not in _INVISIBLE)


def _composed(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def _plain(text: str) -> str:
    return _without_zeros(_without_blanks(_without_decimals(_without_blanks(text))).casefold())


_FORMS: Mapping[str, Callable[[str], str]] = {
    "one is written with decimals, as pandas writes a column that lacks a value": _without_decimals,
    "they differ in blanks or invisible characters": _without_blanks,
    "they differ in upper and lower case": str.casefold,
    "one has zeros before the number": _without_zeros,
    "one has quotes around it": lambda text: text.strip("'\"`"),
    "they differ in the Unicode form": _composed,
    "they differ in decimals, blanks, case or zeros": _plain,
}


def _affixed(longer: Sequence[str], shorter: Sequence[str], enough: int) -> tuple[str, str, str] | None:
    """An id of the one side, the id of the other that is in it, and the text around that most of them have."""
    known = {_without_zeros(one.casefold()): one for one in reversed(shorter)}
    votes: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], tuple[str, str]] = {}
    folded = [one.casefold() for one in longer]
    # Digits that all ids share may belong to the number.
    before = _common_start(folded).rstrip("0123456789")
    behind = _common_start([text[::-1] for text in folded])[::-1].lstrip("0123456789")
    for one, text in zip(longer, folded, strict=True):
        cuts = {(text[:cut], "") for cut in range(1, min(len(text), _LONGEST))}
        cuts |= {("", text[cut:]) for cut in range(max(1, len(text) - _LONGEST), len(text))}
        for prefix, suffix in sorted({*cuts, (before, behind)}):
            core = _without_zeros(text[len(prefix) : max(len(prefix), len(text) - len(suffix))])
            if core in known and (prefix or suffix):
                votes[prefix, suffix] += 1
                first.setdefault((prefix, suffix), (one, known[core]))
    if not votes:
        return None
    affix, count = max(votes.items(), key=lambda item: (item[1], -len("".join(item[0]))))
    one, other = first[affix]
    # A single short id is in many a long one by chance.
    if count < enough or (count == 1 and (len(other) < _TELLING or 2 * len(other) < len(one))):
        return None
    parts = [f"{quoted(text)} {where} it" for text, where in zip(affix, ("before", "behind"), strict=True) if text]
    return one, other, f"one has {' and '.join(parts)}"


def _common_start(texts: Sequence[str]) -> str:
    first, last = min(texts), max(texts)
    return first[: next((i for i, pair in enumerate(zip(first, last, strict=False)) if len(set(pair)) > 1), len(first))]
