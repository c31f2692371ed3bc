"""Reads the runs that are tracked: their names, choices and figures. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from experiments.compare.run_folder import ID_CHARACTERS, distinct_names
from experiments.config.compose import compose
from experiments.publish.described import allowed
from experiments.publish.track import MlflowTracking
from experiments.replay.component import component
from ragtune.core.errors import ConfigError

PAGE = 1000
"""Runs that are asked for at once."""


@dataclass(frozen=True)
class TrackedRun:
    """A tracked run.

    Attributes:
        run_id, name: MLflow's.
        short: the beginning of its id that no other run has, 8 characters at least.
        status: ``finished``, ``failed``, ``running`` or ``killed``.
        created: milliseconds since 1970, UTC.
        collection, policy, budget: what it replayed, by which policy, under which budget; empty where it does not say.
        docs: documents reranked a query; None where it has no results.
        measures: its measures by the names in which they were asked for, the headline first.
        tags: all of its tags.
        parent: the id of its sweep; None outside a sweep.
        is_sweep: whether it is a sweep itself, which has no figures of its own.
    """

    run_id: str
    name: str
    short: str
    status: str
    created: int
    collection: str
    policy: str
    budget: str
    docs: float | None
    measures: Mapping[str, float]
    tags: Mapping[str, str] = field(repr=False)
    parent: str | None = None
    is_sweep: bool = False

    @property
    def has_oracle(self) -> bool:
        """Whether its policy looks at what it should find."""
        return "oracle" in self.tags.get("estimator", "")


def tracked_runs() -> list[TrackedRun]:
    """Every run of the store and experiment that ``conf/tracking/mlflow.yaml`` or MLFLOW_TRACKING_URI names.

    Returns:
        The newest first; sweeps among them.

    Raises:
        ConfigError: if there is none, saying how to make one.
        TrackingError: if the store cannot be read.
    """
    tracking: MlflowTracking = component(compose(["tracking=mlflow"]), "tracking")
    runs = tracking.read_runs(PAGE)
    if not runs:
        raise ConfigError(
            f"no runs are tracked at {tracking.uri}, experiment {tracking.experiment!r}: make one with python run.py, "
            "or name another store with MLFLOW_TRACKING_URI"
        )
    runs.sort(key=lambda run: (-run.info.start_time, run.info.run_id))
    ids = [str(run.info.run_id) for run in runs]
    shorts = distinct_names([[i[:n] for n in range(ID_CHARACTERS, len(i) + 1)] for i in ids])
    return [_read(run, short) for run, short in zip(runs, shorts, strict=True)]


def _read(run: Any, short: str) -> TrackedRun:
    tags, metrics = run.data.tags, run.data.metrics
    policy, *_ = run.info.run_name.split(", ")  # of runs from before there was a tag
    return TrackedRun(
        run_id=run.info.run_id,
        name=run.info.run_name,
        short=short,
        status=run.info.status.lower(),
        created=run.info.start_time,
        collection=tags.get("dataset", ""),
        policy=tags.get("policy", policy if "dataset" in tags else ""),
        budget=run.data.params.get("budget", ""),
        docs=metrics.get("charged_docs"),
        measures=dict(_measures(run.data.params.get("measures", "[]"), metrics)),
        tags=tags,
        parent=tags.get("mlflow.parentRunId"),
        is_sweep=tags.get("sweep") == "true",
    )


def _measures(asked: str, metrics: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """Measures by their own names where those are known, else by MLflow's (of runs without judgments)."""
    names = {allowed(name): name for name in yaml.safe_load(asked)}
    found = {key.removeprefix("curve/") for key in metrics if key.startswith("curve/")} & set(metrics)
    yield from ((names[key], metrics[key]) for key in names if key in found)
    yield from ((key, metrics[key]) for key in sorted(found - set(names)))


def find_run(text: str, runs: Sequence[TrackedRun]) -> TrackedRun:
    """The run that somebody names: by its id, the beginning of its id, or its name.

    Raises:
        ConfigError: if there is none, or several, or it is a sweep.
    """
    found = [run for run in runs if run.run_id.startswith(text)] if text else []
    found = found or [run for run in runs if run.name == text]
    if not found:
        raise ConfigError(f"{text!r} is neither a folder nor a tracked run: ragtune runs list shows ids and names")
    if len(found) > 1:
        which = ", ".join(run.short for run in found[:8])
        raise ConfigError(f"{text!r} may be any of {len(found)} runs: name one by its id, {which}")
    [run] = found
    if run.is_sweep:
        jobs = ", ".join(job.short for job in runs if job.parent == run.run_id) or "none is left"
        raise ConfigError(f"{text!r} is a sweep and has no figures of its own: name one of its jobs, {jobs}")
    return run


def measure_of(name: str, runs: Sequence[TrackedRun]) -> str:
    """The measure that somebody names, as itself or as MLflow has it: ``nDCG@10``, ``nDCG_10``.

    Raises:
        ConfigError: if no run has it.
    """
    known = list(dict.fromkeys(measure for run in runs for measure in run.measures))
    for measure in known:
        if name in (measure, allowed(measure)):
            return measure
    raise ConfigError(f"unknown measure {name!r}: the runs have {', '.join(known) or 'none'}")


def best_runs(
    runs: Sequence[TrackedRun], measure: str | None, *, each_budget: bool
) -> list[tuple[TrackedRun, str, int]]:
    """The best finished run of every collection, by a measure; ties go to fewer documents, then to the older run.

    Args:
        runs: among which.
        measure: which; None for the headline of a collection's newest run.
        each_budget: of every collection under every budget.

    Returns:
        The run, the measure, and among how many runs it is the best; sorted by collection and budget.
    """
    groups: dict[tuple[str, ...], list[TrackedRun]] = {}
    for run in runs:
        if run.status == "finished" and run.measures:
            groups.setdefault((run.collection, run.budget) if each_budget else (run.collection,), []).append(run)
    found = []
    for _, group in sorted(groups.items()):
        by = measure or next(iter(group[0].measures))
        having = [run for run in group if by in run.measures]
        if having:
            best = min(having, key=lambda run: (-run.measures[by], run.docs or 0.0, run.created, run.run_id))
            found.append((best, by, len(having)))
    return found
