"""Every policy at every budget on every collection, in one study.

    ragtune study                                        # the shipped collection
    ragtune study --config shared --data ../shared/data  # collections beside the checkout
    ragtune study --policies uncertainty budgets=[10,20] traces.budget=20

Writes frontier.md, frontier.csv and .parquet (one row a cell), policies.csv, curves.csv, per_query.parquet, two
figures a collection and report.html; claims.md and claims.csv where the configuration claims something, choice.md
where it lets one of its policies be chosen by leaving one group of collections out, changes.md beside an earlier
table. Finished cells are kept below the output folder: repeat the command to go on after an interruption; cells are
replayed again where configuration, code or data changed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

NAME = "study"
SUMMARY = "compare policies over budgets and collections, with a report to explore"
KEPT = "finished cells are kept: repeat the command to go on"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--config", default="demo", help="a file of conf/frontier without .yaml, or a YAML file's path")
    parser.add_argument("--data", help="folder of the collections: the configuration's ${data}")
    parser.add_argument("--out", type=Path, help="results; by default results/frontier/NAME")
    parser.add_argument("--before", type=Path, help="an earlier frontier.csv: changes.md lists first what got worse")
    parser.add_argument("--collections", default="", help="only these, separated by commas")
    parser.add_argument("--policies", default="", help="only these (and the incumbent), separated by commas")
    parser.add_argument("options", nargs="*", metavar="KEY=VALUE", help="changes to the configuration")


def run(arguments: argparse.Namespace) -> int:
    """Run the study and print its tables."""
    from experiments.publish.progress import progress_bar
    from experiments.study.frontier import run_frontier
    from experiments.study.grid_file import load_grid
    from experiments.study.protocol.changes import read_cells, write_changes

    options = [*arguments.options, *([f"data={arguments.data}"] if arguments.data else [])]
    grid = load_grid(arguments.config, options).only(_names(arguments.collections), _names(arguments.policies))
    folder = arguments.out or Path("results", "frontier", grid.name)
    compared = grid.measures[0], grid.limited
    before = read_cells(arguments.before, *compared) if arguments.before else None
    with progress_bar(f"study {grid.name}", enabled=True) as update:
        run_frontier(grid, folder, arguments.command, update)
    if before is not None:
        write_changes(folder, before, *compared, arguments.before.name)
    sys.stdout.write((folder / "frontier.md").read_text(encoding="utf-8"))
    sys.stdout.write(f"{folder}\n")
    return 0


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
