"""MLflow's store: its SQLite file, which is made whole or not at all, and the saved view of its list of runs."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import tempfile
import warnings
from contextlib import closing, suppress
from pathlib import Path

from ragtune.core.errors import RagtuneError

_BUSY_SECONDS = 5.0
_TABLES = {"experiments", "runs"}
"""Tables that every version of MLflow's store has."""


class TrackingError(RagtuneError):
    """A run could not be logged; its files are whole, and ``ragtune relog`` logs them later."""


def keep_quiet() -> None:
    """Have MLflow fail soon where a server is down, and write nothing to the terminal: what fails is raised."""
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    warnings.filterwarnings("ignore", module=r"mlflow|alembic|sqlalchemy")
    import mlflow  # noqa: F401, it sets up its loggers

    # A pool of connections logs an interrupt as an error, and raises it too.
    for name in ("mlflow", "alembic", "urllib3.connectionpool", "sqlalchemy.pool"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def prepare_file(file: Path) -> None:
    """Make sure that a file holds a store of MLflow, and make a new one if it is missing or empty.

    MLflow builds a new store by dozens of migrations that are not one transaction. A kill between two of them would
    leave a file that no later run can use, so the store is made in a temporary folder and put in place by one link.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.exists() and file.stat().st_size:
        _require_mlflows(file)
        return
    file.unlink(missing_ok=True)  # empty: SQLite had it opened, and nothing more
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=".new-", ignore_cleanup_errors=True) as scratch:
        fresh = Path(scratch) / file.name
        _make(fresh)
        with suppress(FileExistsError):  # another process has put its own there in the meantime
            os.link(fresh, file)


def _make(file: Path) -> None:
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    artifacts = (file.parent.parent / "mlartifacts").resolve().as_uri()
    SqlAlchemyStore(f"sqlite:///{file}", artifacts).engine.dispose()  # type: ignore[no-untyped-call]


def _require_mlflows(file: Path) -> None:
    try:
        with closing(sqlite3.connect(file, timeout=_BUSY_SECONDS)) as db:
            tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.Error as error:
        raise TrackingError(f"{file}: {error}") from error
    if tables and not tables >= _TABLES:
        raise TrackingError(f"{file} is the database of another program: give another file as tracking.uri")


KEY = "ragtune"
TAG = f"mlflow.sharedViewState.{KEY}"
TITLE = "Quality, cost and choices"
"""Name of the view in MLflow's menu *Views*."""

NOTE = "mlflow.note.content"
"""Tag with the description of an experiment or a run."""

_FIXED = {"attributes.`Run Name`": 290, "runDateAndNestInfo": 45}
"""Columns that MLflow always shows, with their widths in pixels: the second is cut to the status."""

HEADLINE = "headline"
"""Metric with the value of a run's first measure, and tag with its name: runs of one list may have several."""

_CHOSEN = {
    f"metrics.`{HEADLINE}`": 82,
    f"tags.`{HEADLINE}`": 82,
    "metrics.`charged_docs`": 108,
    "metrics.`aucc`": 82,
    "params.`budget`": 75,
    "params.`estimator`": 95,
    "params.`scheduler`": 95,
    "params.`dataset`": 90,
    "tags.`failures`": 120,
}


def address(experiment_id: str) -> str:
    """The address of the view below the address of ``mlflow ui``."""
    return f"#/experiments/{experiment_id}/runs?viewStateShareKey={KEY}&workflowType=machine_learning"


def experiment_tags(experiment_id: str) -> dict[str, str]:
    """The tags of an experiment that make the view and name it in the experiment's description."""
    widths = _FIXED | _CHOSEN
    state = {
        "selectedColumns": list(_CHOSEN),
        "columnOrder": list(widths),
        "columnWidths": widths,
        "orderByKey": f"metrics.`{HEADLINE}`",
        "orderByAsc": False,
    }
    view = {"name": TITLE, "createdAt": 0, "state": json.dumps(state)}
    note = f"[{TITLE} of the runs]({address(experiment_id)}): open this list first."
    return {TAG: json.dumps(view), NOTE: note}
