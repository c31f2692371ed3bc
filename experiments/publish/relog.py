"""Logs finished runs to tracking after the fact."""

from __future__ import annotations

from pathlib import Path

from experiments.config.compose import register_resolvers
from experiments.publish.files import read_config, require_summary, write_summary
from experiments.publish.track import Tracking, parent_of
from experiments.replay.component import component


def relog(folder: Path, *, force: bool = False) -> str:
    """Log a run folder with its own tracking configuration.

    Args:
        folder: a complete run's directory.
        force: log again even if the summary names a tracked run.

    Returns:
        What was done, in words.

    Raises:
        DatasetError: if the folder holds no complete run.
        TrackingError: if it cannot be logged.
    """
    summary = require_summary(folder)
    if summary.mlflow_run_id and not force:
        return f"already logged as {summary.mlflow_run_id}"
    register_resolvers()
    config = read_config(folder)
    tracking: Tracking = component(config, "tracking")
    run_id = tracking.log(folder, parent_of(folder), again=force)
    write_summary(folder, summary.tracked_as(run_id))
    return f"logged as {run_id}"
