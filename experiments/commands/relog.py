"""Log finished runs to MLflow from their files.

The store is MLFLOW_TRACKING_URI, else that of the run's configuration; of a run with tracking=none, that of
conf/tracking/mlflow.yaml.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("run_dir", nargs="+", metavar="RUN_DIR", type=Path, help="folder of a run")
    parser.add_argument("--force", action="store_true", help="log again what has been logged already")


def run(arguments: argparse.Namespace) -> int:
    """Log every folder that is named."""
    for folder in arguments.run_dir:
        sys.stdout.write(f"{folder}: {relog(folder, force=arguments.force)}\n")
    return 0


def relog(folder: Path, *, force: bool = False) -> str:
    """Log a run folder with its own tracking configuration, or with that of ``tracking=mlflow`` where it has none."""
    from experiments.config.compose import compose, register_resolvers
    from experiments.publish.files import read_config, require_summary, write_summary
    from experiments.publish.track import NoTracking, Tracking, parent_of
    from experiments.replay.component import component

    summary = require_summary(folder)
    if summary.mlflow_run_id and not force:
        return f"already logged as {summary.mlflow_run_id}"
    register_resolvers()
    config = read_config(folder)
    tracking: Tracking = component(config, "tracking")
    if isinstance(tracking, NoTracking):
        tracking = component(compose(["tracking=mlflow"]), "tracking")
    run_id = tracking.log(folder, parent_of(folder), again=force)
    write_summary(folder, summary.tracked_as(run_id))
    return f"logged as {run_id}"
