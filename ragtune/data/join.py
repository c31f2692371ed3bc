"""How many ids two sides have in common: judgments and queries, queries and runs, candidates and scores."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from os.path import commonprefix

from pydantic import BaseModel, ConfigDict

from ragtune.core.errors import DatasetError
from ragtune.core.plain import quoted

_LOOKED_AT = 500
"""Ids of each side that are compared to find another form."""

_DECIMALS = re.compile(r"([+-]?\d+)\.0+([eE]\+?0+)?")
_INVISIBLE = "\ufeff\u200b\u200c\u200d\u2060\u00ad\0"


class Join(BaseModel):
    """How many ids two sides share, an id that the other side lacks, and a hint at another form of ids."""

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
    """Return the end of a message with an id of each side, where the ids of two sides are the same in another form."""
    ours, theirs = list(islice(ours, _LOOKED_AT)), list(islice(theirs, _LOOKED_AT))
    enough = max(1, min(len(ours), len(theirs)) // 2)
    if len(pairs := _pairs(ours, theirs, "", "")) >= enough:
        return _hint(*pairs[0], "")
    for longer, shorter in ((ours, theirs), (theirs, ours)):
        (start, end), (own_start, own_end) = _around(longer), _around(shorter)
        before, behind = start.removesuffix(own_start), end.removeprefix(own_end)
        if len(longer) > 1 and before + behind and len(pairs := _pairs(longer, shorter, before, behind)) >= enough:
            parts = [f"{quoted(text)} {where} it" for text, where in ((before, "before"), (behind, "behind")) if text]
            return _hint(*(pairs[0] if longer is ours else pairs[0][::-1]), f": one has {' and '.join(parts)}")
    return ""


def _around(ids: Sequence[str]) -> tuple[str, str]:
    """How all ids begin and end. Digits that they share may belong to a number."""
    start, end = (commonprefix(texts) for texts in (ids, [one[::-1] for one in ids]))  # noqa: RUF071 -- of letters
    return start.rstrip("0123456789"), end[::-1].lstrip("0123456789")


def _hint(one: str, other: str, how: str) -> str:
    return f"; {quoted(one)} and {quoted(other)} look like the same id{how}"


def _pairs(longer: Sequence[str], shorter: Sequence[str], before: str, behind: str) -> list[tuple[str, str]]:
    """The ids of both sides that are the same without the texts before and behind, and in their plain form."""
    known = {_plain(one): one for one in reversed(shorter)}
    cores = {one: _plain(one[len(before) : len(one) - len(behind)]) for one in longer}
    return [(one, known[core]) for one, core in cores.items() if core in known]


def _plain(text: str) -> str:
    """An id without blanks, invisible characters, quotes, decimals, leading zeros, case and Unicode form."""
    visible = (letter for letter in unicodedata.normalize("NFKC", text) if not letter.isspace())
    bare = "".join(letter for letter in visible if letter not in _INVISIBLE).strip("'\"`").casefold()
    found = _DECIMALS.fullmatch(bare)
    number = found[1] if found else bare
    return number.lstrip("0") or "0" if number.isdecimal() else number
