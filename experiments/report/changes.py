"""What a study says now beside what its table said before, as a page of Markdown: what got worse comes first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.publish.files import write_text
from experiments.report.overview import measures_of, overview_of, write_overview
from experiments.report.study import unit_of
from ragtune.core.errors import ConfigError
from ragtune.core.units import Unit

PAIR = ["collection", "policy"]
KEYS = [*PAIR, "budget"]

SAME = 0.0005
"""Changes below it are none: the tables show three digits."""


def read_cells(file: Path, measure: str, unit: Unit) -> Any:
    """The cells that a study's ``frontier.csv`` holds.

    Args:
        file: the table.
        measure: name of the measure that is compared.
        unit: what the study's budgets limit.

    Raises:
        ConfigError: if it cannot be read, is no such table, or is one of another measure or unit.
    """
    import pandas as pd

    try:
        cells = pd.read_csv(file, dtype={"budget": str})
    except (OSError, ValueError) as error:
        raise ConfigError(f"{str(file)!r} cannot be read: {error}") from None
    if missing := [key for key in (*KEYS, "label", "kind") if key not in cells.columns]:
        raise ConfigError(f"{str(file)!r} is no table of a study: it has no column {missing[0]!r}")
    if measure not in cells.columns:
        raise ConfigError(f"{str(file)!r} has no {measure}: allowed is a table of it, not of {measures_of(cells)}")
    if len(cells) and (other := unit_of(cells)) is not unit:
        raise ConfigError(f"{str(file)!r} has budgets in {other.noun}: allowed is a table of budgets in {unit.noun}")
    values = pd.to_numeric(cells[measure], errors="coerce")
    if (bad := cells[values.isna() & cells[measure].notna()]).size:
        raise ConfigError(f"{str(file)!r} has {measure}={str(bad[measure].iloc[0])!r}: allowed is a number")
    if (again := cells[cells.duplicated(KEYS)]).size:
        twice = ", ".join(f"{key} {again[key].iloc[0]!r}" for key in KEYS)
        raise ConfigError(f"{str(file)!r} has several cells of {twice}: allowed is one")
    return cells


def write_changes(folder: Path, before: Any, measure: str, unit: Unit, source: str) -> None:
    """Write ``changes.md`` into the folder of a study that has just been written, and what links to it.

    Args:
        folder: holds the study's ``frontier.csv``.
        before: the earlier table, see :func:`read_cells`.
        measure, unit: those of the study.
        source: what ``before`` is called in the text.
    """
    after = read_cells(folder / "frontier.csv", measure, unit)
    write_text(folder / "changes.md", changes_page(before, after, measure, source))
    if results := overview_of(folder.resolve()):
        write_overview(results)


def changes_page(before: Any, after: Any, measure: str, source: str) -> str:
    """The policies that are ours, and others that are not what they were, collection by collection, largest loss first.

    Args:
        before, after: tables of cells, see :func:`read_cells`.
        measure: name of the measure that is compared.
        source: what ``before`` is called in the text.
    """
    both = after.merge(before[[*KEYS, measure]].dropna(), on=KEYS, suffixes=("", "_before")).dropna(subset=measure)
    both = both.assign(change=both[measure] - both[f"{measure}_before"])
    ours = both["kind"] == "ours"
    moved = both.groupby(PAIR)["change"].transform(lambda change: change.abs().max()) >= SAME
    shown = both[ours | moved].groupby(PAIR, sort=False)
    pairs = [mine.loc[mine["change"].idxmin()] for _, mine in shown]
    means = shown["change"].mean()
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
        f"budget**; {len(after) - len(both)} cells were not in the earlier table. All policies\n"
        "of ours are here, and others only where they changed.\n\n" + "\n".join([*lines, ""])
    )
