"""python scripts/frontier.py [KEY=VALUE...]: every policy at every budget on every collection, in one study.

    python scripts/frontier.py                                        # the shipped collection
    python scripts/frontier.py --config shared --data ../shared/data  # collections beside the checkout
    python scripts/frontier.py --policies uncertainty budgets=[10,20] traces.budget=20

Writes frontier.md, frontier.csv and .parquet (one row a cell), policies.csv, per_query.parquet, two figures a
collection and report.html. Finished cells are kept below the output folder: repeat the command to go on after an
interruption; cells are replayed again where configuration, code or data changed.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.publish.terminal import progress_bar
from experiments.study.frontier import run_frontier
from experiments.study.grid import load_grid
from ragtune.core.errors import RagtuneError


def main() -> int:
    """Run a study, and return the exit code: 0 done, 2 bad input, 130 interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default="demo", help="a file of conf/frontier without .yaml, or a YAML file's path")
    parser.add_argument("--data", help="folder of the collections: the configuration's ${data}")
    parser.add_argument("--out", type=Path, help="results; by default results/frontier/NAME")
    parser.add_argument("--collections", default="", help="only these, separated by commas")
    parser.add_argument("--policies", default="", help="only these (and the incumbent), separated by commas")
    parser.add_argument("options", nargs="*", metavar="KEY=VALUE", help="changes to the configuration")
    arguments = parser.parse_intermixed_args()
    options = [*arguments.options, *([f"data={arguments.data}"] if arguments.data else [])]
    try:
        grid = load_grid(arguments.config, options).only(_names(arguments.collections), _names(arguments.policies))
        folder = arguments.out or Path("results", "frontier", grid.name)
        command = shlex.join(["python", "scripts/frontier.py", *sys.argv[1:]])
        with progress_bar(f"frontier {grid.name}", enabled=True) as update:
            run_frontier(grid, folder, command, update)
    except RagtuneError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except OSError as error:
        sys.stderr.write(f"error: cannot use {error.filename or 'a file'}: {error.strerror or error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; finished cells are kept: repeat the command to go on\n")
        return 130
    sys.stdout.write((folder / "frontier.md").read_text(encoding="utf-8"))
    sys.stdout.write(f"{folder}\n")
    return 0


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


if __name__ == "__main__":
    sys.exit(main())
