"""Published figures beside ours, and the verdict on each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from experiments.report.markdown import Table
from experiments.reproduce.paper import Cell, Paper
from experiments.reproduce.replays import Replays

COLUMNS = ("cell", "published", "ours", "difference", "verdict", "why")


class ReproductionVerdict(StrEnum):
    """What is known of a published figure."""

    EQUAL = "equal"
    EXPLAINED = "explained"
    DIFFERENT = "different"
    NOT_HERE = "not reproducible here"


@dataclass(frozen=True)
class Reproduced:
    """A cell with our value, its distance from the published one, and the verdict with its reason."""

    cell: Cell
    verdict: ReproductionVerdict
    why: str
    ours: float | str | None = None
    difference: float | None = None  # of numbers; from the nearer end of a range

    @property
    def is_unexpected(self) -> bool:
        return self.verdict is ReproductionVerdict.DIFFERENT and not self.cell.open

    @property
    def row(self) -> Sequence[str]:
        """The texts under :data:`COLUMNS`."""
        published = self.cell.published
        shown = " to ".join(map(_shown, published)) if isinstance(published, list) else _shown(published)
        difference = "" if self.difference is None else f"{self.difference:+.4f}"
        named = f"{self.cell.cell} ({self.cell.table})"
        return [named, shown, "" if self.ours is None else _shown(self.ours), difference, self.verdict, self.why]


def _shown(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4f}".rstrip("0").rstrip(".")


def reproduced(paper: Paper, replays: Replays) -> Iterator[Reproduced]:
    """Each cell of a paper with its verdict, in the file's order."""
    for cell in paper.cells:
        if cell.needs:
            yield Reproduced(cell, ReproductionVerdict.NOT_HERE, f"needs {cell.needs}")
        elif flaw := replays.flaw(paper, cell):
            kind, file = flaw
            is_missing = kind == "needs"
            verdict = ReproductionVerdict.NOT_HERE if is_missing else ReproductionVerdict.DIFFERENT
            why = f"needs {file}" if is_missing else f"input {file} has other bytes"
            yield Reproduced(cell, verdict, why)
        else:
            yield _judged(cell, replays.ours(paper, cell))


def _judged(cell: Cell, ours: float | str) -> Reproduced:
    published = cell.published
    if isinstance(published, str) or isinstance(ours, str):
        verdict = ReproductionVerdict.EQUAL if published == ours else ReproductionVerdict.DIFFERENT
        return Reproduced(cell, verdict, cell.because, ours)
    low, high = published if isinstance(published, list) else (published, published)
    difference = ours - min(max(ours, low), high)
    distance = abs(difference) - 1e-9  # what floating point leaves of a decimal
    if distance <= cell.tolerance:
        return Reproduced(cell, ReproductionVerdict.EQUAL, cell.because, ours, difference)
    if cell.explained and distance <= cell.explained.within:
        return Reproduced(cell, ReproductionVerdict.EXPLAINED, cell.explained.why, ours, difference)
    return Reproduced(cell, ReproductionVerdict.DIFFERENT, cell.open, ours, difference)


def table_of(paper: Paper, rows: Iterable[Reproduced]) -> Table:
    """A paper's table, with what the published figures were read from in its title."""
    named = f"{paper.title} (arXiv {paper.arxiv})" if paper.arxiv else paper.title
    return Table(named, COLUMNS, [row.row for row in rows])


def counts_of(rows: Iterable[Reproduced]) -> str:
    """How many cells have which verdict, in one line."""
    counts = Counter(row.verdict for row in rows)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in ReproductionVerdict)
