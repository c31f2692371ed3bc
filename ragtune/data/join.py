"""How the ids of two sides meet: judgments and queries, queries and runs, candidates and scores."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import islice

from pydantic import BaseModel, ConfigDict

from ragtune.core.errors import DatasetError
from ragtune.core.plain import quoted
from ragtune.data.idforms import other_form

_LOOKED_AT = 500
"""Ids of each side that are looked at to find another form."""


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
        """What is missing, in the words that follow the number of missing ids."""
        return (
            f"of {self.left_size} {self.left} are missing in {self.right}, e.g. {quoted(self.left_only)}: it has "
            f"{self.right_size}, {self.matched} of them match{self.hint}"
        )

    def require_any(self) -> Join:
        """The join itself, if the sides have an id in common.

        Raises:
            DatasetError: with an id of each side, if they have none.
        """
        if self.matched or not self.left_size:
            return self
        other = f", e.g. {quoted(self.right_only)}" if self.right_only is not None else ""
        raise DatasetError(
            f"none of the {self.left_size} {self.left}, e.g. {quoted(self.left_only)}, is in {self.right}, which has "
            f"{self.right_size}{other}{self.hint}"
        )


def joined(left: str, left_ids: Collection[str], right: str, right_ids: Collection[str]) -> Join:
    """How many ids of the left side the right side has.

    Args:
        left, right: what the ids are of, see :class:`Join`.
        left_ids, right_ids: distinct ids, of collections that are quick to look into.
    """
    matched = sum(one in right_ids for one in left_ids)
    join = Join(left=left, right=right, left_size=len(left_ids), right_size=len(right_ids), matched=matched)
    if not join.missing:
        return join
    ours, theirs = _without(left_ids, right_ids), _without(right_ids, left_ids)
    apart = {"left_only": ours[0], "right_only": theirs[0] if theirs else None, "hint": form_hint(ours, theirs)}
    return join.model_copy(update=apart)


def form_hint(ours: Iterable[str], theirs: Iterable[str]) -> str:
    """The end of a message that names both forms where ids of two sides look alike; empty where they do not."""
    found = other_form(list(islice(ours, _LOOKED_AT)), list(islice(theirs, _LOOKED_AT)))
    return f"; {found}" if found else ""


def _without(ids: Iterable[str], others: Collection[str]) -> list[str]:
    return list(islice((one for one in ids if one not in others), _LOOKED_AT))
