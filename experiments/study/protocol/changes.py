"""What a study says now beside what its table said before, as a page of Markdown: what got worse comes first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.study.overview import measures_of
from ragtune.core.errors import ConfigError

KEYS = ["collection", "policy", "budget"]

SAME = 0.0005
"""Changes below it are none: the tables show three digits."""


def read_cells(file: Path) -> Any:
    """The cells that a study's ``frontier.csv`` holds.

    Raises:
        ConfigError: if it cannot be read, or is no such table.
    """
    import pandas as pd

    try:
        cells = pd.read_csv(file, dtype={"budget": str})
    except (OSError, ValueError) as error:
        raise ConfigError(f"{str(file)!r} cannot be read: {error}") from None
    if missing := [key for key in (*KEYS, "label", "kind") if key not in cells.columns]:
        raise ConfigError(f"{str(file)!r} is no table of a study: it has no column {missing[0]!r}")
    return cells


def changes_page(before: Any, after: Any, source: str) -> str:
    """The policies that are ours, collection by collection, the largest loss first.

    Args:
        before, after: tables of cells, see :func:`read_cells`.
        source: what ``before`` is called in the text.
    """
    measure = measures_of(after)[0]
    ours = after[after["kind"] == "ours"]
    both = ours.merge(before[[*KEYS, measure]], on=KEYS, suffixes=("", "_before"))
    both = both.assign(change=both[measure] - both[f"{measure}_before"])
    pairs = [mine.loc[mine["change"].idxmin()] for _, mine in both.groupby(["collection", "policy"], sort=False)]
    means = both.groupby(["collection", "policy"])["change"].mean()
    pairs.sort(key=lambda row: row["change"])
    worse = sum(row["change"] <= -SAME for row in pairs)
    lines = [
        f"| collection | policy | largest loss | at | {measure} before | now | mean change over the budgets |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {row['collection']} | {row['label']} | {row['change']:+.3f} | {row['budget']} | "
        f"{row[f'{measure}_before']:.3f} | {row[measure]:.3f} | {means[row['collection'], row['policy']]:+.4f} |"
        for row in pairs
    ]
    return (
        f"# What changed since {source}\n\n**{worse} of {len(pairs)} pairs of collection and policy got worse at some "
        f"budget**; {len(ours) - len(both)} cells were not in the earlier table.\n\n" + "\n".join([*lines, ""])
    )
