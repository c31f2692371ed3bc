"""python scripts/relog.py RUN_DIR...: log finished runs to MLflow from their files.

The address is the run's own configuration's, or MLFLOW_TRACKING_URI.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.publish.relog import relog
from ragtune.core.errors import InputError, RagtuneError


def main() -> int:
    """Log every folder named on the command line, and return the exit code: 0 done, 2 if one holds no run, 1 else."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run_dir", nargs="+", type=Path)
    parser.add_argument("--force", action="store_true", help="log again what has been logged already")
    arguments = parser.parse_args()
    try:
        for folder in arguments.run_dir:
            sys.stdout.write(f"{folder}: {relog(folder, force=arguments.force)}\n")
    except RagtuneError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2 if isinstance(error, InputError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
