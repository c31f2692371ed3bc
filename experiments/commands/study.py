"""Compare every policy at every budget on every collection.

    ragtune study                                        # the shipped collection
    ragtune study --config shared --data ../shared/data  # collections beside the checkout
    ragtune study --policies uncertainty budgets=[10,20]

Writes frontier.md, frontier.csv and .parquet (one row per cell), policies.csv, curves.csv, per_query.parquet and
report.html. It also writes claims.md and claims.csv for the claims of the configuration, and choice.md for its choice
by leaving one group of collections out.

Finished cells are cached below the output folder: repeat the command to continue after an interruption. A cell is
replayed again if its configuration, code or data changed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

KEPT = "finished cells are kept: repeat the command to go on"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--config", default="demo", help="a file of conf/frontier without .yaml, or a YAML file's path")
    parser.add_argument("--data", help="folder of the collections (${data} in the configuration)")
    parser.add_argument("--out", type=Path, help="output folder; default: results/frontier/NAME")
    parser.add_argument("--collections", default="", help="only these, separated by commas")
    parser.add_argument("--policies", default="", help="only these (and the baseline), separated by commas")
    parser.add_argument("options", nargs="*", metavar="KEY=VALUE", help="changes to the configuration")


def run(arguments: argparse.Namespace) -> int:
    """Run the study and print its tables."""
    from experiments.publish.progress import progress_bar
    from experiments.study.cells import run_frontier
    from experiments.study.grid import load_grid

    options = [*arguments.options, *([f"data={arguments.data}"] if arguments.data else [])]
    grid = load_grid(arguments.config, options).only(_names(arguments.collections), _names(arguments.policies))
    folder = arguments.out or Path("results", "frontier", grid.name)
    with progress_bar(f"study {grid.name}", enabled=True) as update:
        run_frontier(grid, folder, arguments.command, update)
    sys.stdout.write((folder / "frontier.md").read_text(encoding="utf-8"))
    sys.stdout.write(f"{folder}\n")
    return 0


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
