"""The tracks of the board: in which unit, under which budgets and by which reranker policies are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from experiments.study.cells import compares_windows
from experiments.study.grid import CollectionEntry, Grid, PolicyEntry, load_grid
from ragtune.core.errors import ConfigError

REFERENCE = "fixed_depth"
"""The policy that the others are tested against."""


@dataclass(frozen=True)
class Track:
    """A unit with its budgets; ``window`` is the most documents of a call, whose scores hold in that call only."""

    unit: str
    budgets: tuple[int, ...]
    reranker: str = "replay"
    window: int | None = None


TRACKS = (
    Track("docs", (5, 10, 20, 50, 100)),
    Track("calls", (2, 5, 10, 15), "simulated", 20),
    Track("tokens", (1000, 2000, 5000, 10000, 20000)),
)


def grid_of(track: Track, data: str | None, options: Sequence[str]) -> Grid:
    """The collections and policies of a track: those of a folder of collections, or the shipped collection."""
    own = [f"unit={track.unit}", f"budgets={list(track.budgets)}", f"traces.budget={track.budgets[0]}"]
    own += [f"reranker={track.reranker}", *([f"data={data}"] if data else [])]
    grid = load_grid("leaderboard" if data else "leaderboard_demo", [*options, *own])
    found = [_for_reranking(entry) for entry in grid.collections if _is_there(entry)]
    if not found:
        raise ConfigError(f"--data {data}: it has none of {', '.join(entry.name for entry in grid.collections)}")
    grid = replace(grid, collections=found)
    if track.window is None:
        return grid
    fixed = PolicyEntry(REFERENCE, "baseline", overrides=[f"experiment={REFERENCE}", f"scheduler.top_n={track.window}"])
    others = [entry for entry in grid.policies if compares_windows(grid.configuration(found[0], entry))]
    return replace(grid, policies=[fixed, *others])


def _is_there(entry: CollectionEntry) -> bool:
    paths = [text.removeprefix("dataset.path=") for text in entry.overrides if text.startswith("dataset.path=")]
    return all(Path(path).is_dir() for path in paths)


def _for_reranking(entry: CollectionEntry) -> CollectionEntry:
    """The same with no tokens kept for a context."""
    return replace(entry, overrides=[*entry.overrides, "budget.assembly_token_buffer=0"])
