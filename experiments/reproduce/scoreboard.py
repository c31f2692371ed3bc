"""Published figures beside ours, and the verdict on each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from experiments.reproduce.paper import Cell, Paper
from experiments.reproduce.paper import ReproductionVerdict as Verdict
from experiments.reproduce.replays import Replays

COLUMNS = ("cell", "published", "ours", "difference", "verdict", "why")


@dataclass(frozen=True)
class Reproduced:
    """A cell with our value, its distance from the published one, and the verdict with its reason."""

    cell: Cell
    verdict: Verdict
    why: str
    ours: float | str = ""
    difference: float | None = None  # of numbers; from the nearer end of a range

    @property
    def is_unexpected(self) -> bool:
        return self.verdict is Verdict.DIFFERENT and self.cell.expect is not Verdict.DIFFERENT

    @property
    def row(self) -> Sequence[str]:
        """The texts under :data:`COLUMNS`."""
        published = self.cell.published
        shown = " to ".join(map(_shown, published)) if isinstance(published, list) else _shown(published)
        difference = "" if self.difference is None else f"{self.difference:+.4f}"
        named = f"{self.cell.cell} ({self.cell.table})"
        return [named, shown, _shown(self.ours), difference, self.verdict, self.why]


def _shown(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4f}".rstrip("0").rstrip(".")


def reproduced(cell: Cell, paper: Paper, replays: Replays) -> Reproduced:
    """A cell of a paper with its verdict."""
    if cell.expect is Verdict.NOT_HERE:
        return Reproduced(cell, Verdict.NOT_HERE, cell.why)
    if flaw := replays.flaw(paper, cell):
        return Reproduced(cell, Verdict.NOT_HERE if flaw.startswith("needs") else Verdict.DIFFERENT, flaw)
    published, ours = cell.published, replays.ours(paper, cell)
    if isinstance(published, str) or isinstance(ours, str):
        return Reproduced(cell, Verdict.EQUAL if published == ours else Verdict.DIFFERENT, cell.why, ours)
    low, high = published if isinstance(published, list) else (published, published)
    difference = ours - min(max(ours, low), high)
    distance = abs(difference) - 1e-9  # what floating point leaves of a decimal
    is_explained = cell.expect is Verdict.EXPLAINED and distance <= cell.within
    verdict = Verdict.EXPLAINED if is_explained else Verdict.DIFFERENT
    return Reproduced(cell, Verdict.EQUAL if distance <= cell.tolerance else verdict, cell.why, ours, difference)
