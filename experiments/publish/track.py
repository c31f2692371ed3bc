"""Tracking: logs the files of finished runs to MLflow, at their end or later (``ragtune relog``)."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sqlite3
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from contextlib import closing, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from experiments.evaluate.summary import Summary
from experiments.publish import described
from experiments.publish.files import CONFIG, CURVE, PICTURE, SUMMARY, picture_of, read_config, read_summary
from experiments.publish.sweep_table import SweepFigures
from ragtune.core.errors import ConfigError, RagtuneError
from ragtune.core.plain import first_line

PARENT_FILE = "mlflow_parent.json"
"""File in the folder of a sweep with the id of its parent run and the names of the options that it varies."""

TRACKING_ERROR = "tracking_error.txt"
"""File in a run's folder with the reason why tracking failed; a later log of the run shows it as a tag."""

MAX_PARAM_LENGTH = 6000

ARTIFACTS = (CONFIG, SUMMARY, "run.trec", "per_query.parquet", CURVE, PICTURE, "traces.jsonl.gz")

RESULTS_TAG = "ragtune.results"
"""Tag of a tracked run that identifies the files it was logged from, so that they are not logged twice."""


class TrackingError(RagtuneError):
    """A run could not be logged; its files are whole, and ``ragtune relog`` logs them later."""


def parent_of(folder: Path) -> str | None:
    """Id of the tracked parent of a run folder inside a sweep; None outside a sweep."""
    run_id: str | None = _of_sweep(folder).get("run_id")
    return run_id


def _of_sweep(folder: Path) -> dict[str, Any]:
    file = folder.parent / PARENT_FILE
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return found


class Tracking:
    """Interface of what finished runs are logged to. Its own methods log nothing."""

    def start_sweep(self, name: str) -> str | None:
        return None

    def describe_sweep(self, run_id: str, tables: Sequence[Path], figures: SweepFigures) -> None:
        """Show a sweep's tables, its best figures, its failures and its jobs' collections on its parent run."""

    def finish(self, run_id: str, status: str = "FINISHED") -> None:
        """Close a run as ``FINISHED``, ``FAILED`` or ``KILLED``."""

    def discard(self, run_id: str) -> None:
        """Delete a run that has no results."""

    def log(self, folder: Path, parent: str | None = None, *, again: bool = False) -> str | None:
        """Log a run folder, unless that is done and ``again`` is false, and return the tracked run's id."""
        return None


class NoTracking(Tracking):
    """Logs nothing, so that the files are all that a run leaves."""


class MlflowTracking(Tracking):
    """Logs parameters, tags, measures, the curve as metric steps, artifacts and the dataset from the files of a run."""

    def __init__(self, uri: str, experiment: str) -> None:
        if not experiment:
            raise ConfigError(f"tracking.experiment={experiment!r}: allowed is a non-empty name")
        self.uri = os.environ.get("MLFLOW_TRACKING_URI") or uri
        self.experiment = experiment
        self._client: Any = None

    def start_sweep(self, name: str) -> str | None:
        run = self._connect().create_run(self._experiment_id, run_name=name, tags=described.sweep_tags(sys.argv))
        return str(run.info.run_id)

    def describe_sweep(self, run_id: str, tables: Sequence[Path], figures: SweepFigures) -> None:
        from mlflow.entities import Metric, RunTag

        self._connect().log_batch(
            run_id,
            metrics=[Metric(key, value, int(time.time() * 1000), 0) for key, value in figures.metrics().items()],
            tags=[RunTag(key, value) for key, value in figures.tags().items()],
        )
        collections = {job.corpus_digest: described.dataset_input(job) for job in figures.jobs.values()}
        if collections:
            self._log_datasets(run_id, list(collections.values()))
        for table in tables:
            self._connect().log_artifact(run_id, str(table))
            if table.suffix == ".md":
                self._connect().set_tag(run_id, described.NOTE, table.read_text(encoding="utf-8"))

    def finish(self, run_id: str, status: str = "FINISHED") -> None:
        self._connect().set_terminated(run_id, status)

    def discard(self, run_id: str) -> None:
        self.finish(run_id, "FAILED")  # its status if someone restores it from MLflow's trash
        self._connect().delete_run(run_id)

    def log(self, folder: Path, parent: str | None = None, *, again: bool = False) -> str | None:
        try:
            summary = read_summary(folder)
            if summary is None:
                raise TrackingError(f"{SUMMARY} is missing")
            results = _results_of(folder, summary)
            done = None if again else self._logged_before(results)
            return done or self._log_anew(folder, summary, parent, results)
        except RagtuneError:
            raise
        except Exception as error:
            raise TrackingError(first_line(error)) from error

    def _logged_before(self, results: str) -> str | None:
        """The finished run of those files, if there is one. A kill or a dead server leaves others: those go."""
        finished = None
        for run in self._connect().search_runs([self._experiment_id], f"tags.`{RESULTS_TAG}` = '{results}'"):
            if run.info.status == "FINISHED":
                finished = str(run.info.run_id)
            else:
                self.discard(run.info.run_id)
        return finished

    def _log_anew(self, folder: Path, summary: Summary, parent: str | None, results: str) -> str:
        config = read_config(folder)
        tags = described.tags(summary, config)
        if (earlier := folder / TRACKING_ERROR).is_file():
            tags["tracking_failed"] = earlier.read_text(encoding="utf-8").strip()
        if parent:
            tags["mlflow.parentRunId"] = parent
        tags[RESULTS_TAG] = results
        name = described.run_name(summary, config, _of_sweep(folder).get("varies", ()))
        started = int((time.time() - summary.wall_s) * 1000)  # so that MLflow's duration is the run's
        run = self._connect().create_run(self._experiment_id, start_time=started, run_name=name, tags=tags)
        run_id = str(run.info.run_id)
        try:
            self._fill(run_id, folder, summary, config)
        except BaseException as error:
            with suppress(Exception):  # what went wrong is being raised already
                self.finish(run_id, "FAILED" if isinstance(error, Exception) else "KILLED")
            raise
        self.finish(run_id, "FAILED" if summary.has_failed else "FINISHED")
        return run_id

    def _fill(self, run_id: str, folder: Path, summary: Summary, config: dict[str, Any]) -> None:
        from mlflow.entities import Param, RunTag

        client = self._connect()
        picture_of(folder)
        for name in ARTIFACTS:  # before the numbers, as the client reads the whole run to learn where they go
            client.log_artifact(run_id, str(folder / name))
        note = RunTag(described.NOTE, described.description(summary, run_id))
        named = described.params(config).items()
        params = [Param(described.allowed(key), str(value)[:MAX_PARAM_LENGTH]) for key, value in named]
        client.log_batch(run_id, params=params, metrics=described.metrics(summary, folder / CURVE), tags=[note])
        self._log_datasets(run_id, [described.dataset_input(summary)])

    def _log_datasets(self, run_id: str, inputs: list[Any]) -> None:
        from mlflow.exceptions import MlflowException

        try:
            self._connect().log_inputs(run_id, datasets=inputs)
        except MlflowException as error:
            if error.error_code != "BAD_REQUEST":  # what the store refused; a server that is down is no such case
                raise
            # Another job has noted the same collection between MLflow's look and its own note.
            self._connect().log_inputs(run_id, datasets=inputs)

    def _connect(self) -> Any:
        if self._client is None:
            keep_quiet()
            from mlflow import MlflowClient

            if file := self._sqlite_file():
                prepare_file(file)
            self._client = MlflowClient(tracking_uri=self.uri)
        return self._client

    @cached_property
    def _experiment_id(self) -> str:
        client = self._connect()
        found = client.get_experiment_by_name(self.experiment)
        if found is None:
            file = self._sqlite_file()
            location = (file.parent / "mlartifacts").resolve().as_uri() if file else None
            found = client.get_experiment(client.create_experiment(self.experiment, artifact_location=location))
        experiment_id = str(found.experiment_id)
        for key, value in described.experiment_tags(experiment_id).items():
            if key not in found.tags:  # what somebody changed stays
                client.set_experiment_tag(experiment_id, key, value)
        return experiment_id

    def _sqlite_file(self) -> Path | None:
        prefix = "sqlite:///"
        return Path(self.uri.removeprefix(prefix)) if self.uri.startswith(prefix) else None


def _results_of(folder: Path, summary: Summary) -> str:
    """Identifies what one production of a run's files made, however often it is logged."""
    made = {**summary.tracked_as(None).plain(), "ns": (folder / "run.trec").stat().st_mtime_ns}
    return hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()


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
    """Make sure that a file holds a store of MLflow; a new one, made by many migrations, is put in place by a link."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.exists() and file.stat().st_size:
        _require_mlflows(file)
        return
    file.unlink(missing_ok=True)  # empty: SQLite had it opened, and nothing more
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=".new-", ignore_cleanup_errors=True) as scratch:
        from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

        fresh, artifacts = Path(scratch) / file.name, (file.parent / "mlartifacts").resolve().as_uri()
        SqlAlchemyStore(f"sqlite:///{fresh}", artifacts).engine.dispose()  # type: ignore[no-untyped-call]
        with suppress(FileExistsError):  # another process has put its own there in the meantime
            os.link(fresh, file)


def _require_mlflows(file: Path) -> None:
    try:
        with closing(sqlite3.connect(file, timeout=5.0)) as db:
            tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.Error as error:
        raise TrackingError(f"{file}: {error}") from error
    if tables and not tables >= {"experiments", "runs"}:
        raise TrackingError(f"{file} is the database of another program: give another file as tracking.uri")
