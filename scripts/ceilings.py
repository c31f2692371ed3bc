"""python scripts/ceilings.py --data ../shared/data: what the best choice of ranks would do, beside a study's claims.

Writes ceilings.md into the folder of the study's results. Only claims count that hold few documents against fixed depth
at a depth of its own; see experiments/study/protocol/ceilings.py for what is chosen and how.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from fnmatch import fnmatchcase
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.publish.files import write_text
from experiments.study.grid_file import load_grid
from experiments.study.protocol.ceilings_page import ceilings_page
from ragtune.core.errors import ConfigError, RagtuneError


def main() -> int:
    """Write the page and return the exit code: 0 done, 2 bad input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default="open", help="a file of conf/frontier without .yaml, or a YAML file's path")
    parser.add_argument("--data", help="folder of the collections: the configuration's ${data}")
    parser.add_argument("--collections", default="*", help="only these, patterns of the shell separated by commas")
    parser.add_argument("--out", type=Path, help="results; by default results/frontier/NAME")
    arguments = parser.parse_args()
    patterns = arguments.collections.split(",")
    command = shlex.join(["python", "scripts/ceilings.py", *sys.argv[1:]])
    try:
        grid = load_grid(arguments.config, [f"data={arguments.data}"] if arguments.data else [])
        named = [c.name for c in grid.collections if any(fnmatchcase(c.name, pattern) for pattern in patterns)]
        if not named:
            raise ConfigError(f"--collections {arguments.collections!r} matches none of the study's collections")
        grid = grid.only(named, [])
        folder = arguments.out or Path("results", "frontier", grid.name)
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / "ceilings.md", ceilings_page(grid, command))
    except RagtuneError as error:
        sys.stderr.write(f"ceilings: {error}\n")
        return 2
    sys.stdout.write(f"{folder / 'ceilings.md'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
