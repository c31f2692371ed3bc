"""Log finished runs to MLflow from their files.

The store is that of the run's configuration, or MLFLOW_TRACKING_URI.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

NAME = "relog"
SUMMARY = "log finished runs to MLflow from their files"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("run_dir", nargs="+", metavar="RUN_DIR", type=Path, help="folder of a run")
    parser.add_argument("--force", action="store_true", help="log again what has been logged already")


def run(arguments: argparse.Namespace) -> int:
    """Log every folder that is named."""
    from experiments.publish.relog import relog

    for folder in arguments.run_dir:
        sys.stdout.write(f"{folder}: {relog(folder, force=arguments.force)}\n")
    return 0
