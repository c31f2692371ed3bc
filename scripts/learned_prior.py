"""python scripts/learned_prior.py --data ../shared/data: what a prior fitted to the reranker's own scores would bring.

Writes learned_prior.md, learned_prior.csv and learning curves. A prior is learned from the other groups of collections
and, for the curves, from a collection's own first queries; see experiments/study/learned for how. Finished cells are
kept in the folder's cells/, so a command that is repeated goes on.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.publish.progress import progress_bar
from experiments.study.grid_file import load_grid
from experiments.study.learned.write import learn
from ragtune.core.errors import RagtuneError


def main() -> int:
    """Write the files and return the exit code: 0 done, 2 bad input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default="signals", help="a file of conf/frontier without .yaml, or a YAML file")
    parser.add_argument("--data", help="folder of the collections: the configuration's ${data}")
    parser.add_argument("--policies", default="default,default-minilm", help="whose priors are replaced")
    parser.add_argument("--out", type=Path, default=Path("results", "frontier", "learned"), help="results")
    arguments = parser.parse_args()
    command = shlex.join(["python", "scripts/learned_prior.py", *sys.argv[1:]])
    try:
        grid = load_grid(arguments.config, [f"data={arguments.data}"] if arguments.data else [])
        with progress_bar("learned prior", enabled=True) as update:
            page = learn(grid, arguments.policies.split(","), arguments.out, command, update)
    except RagtuneError as error:
        sys.stderr.write(f"learned_prior: {error}\n")
        return 2
    sys.stdout.write(f"{page}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
