"""Finds finished runs, reads their files, and makes a study of them. Errors name the damaged file."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.config.compose import compose
from experiments.config.options import WHERE_NOT_WHAT
from experiments.evaluate.record import UNITS, told
from experiments.evaluate.significance import PERMUTATIONS
from experiments.evaluate.summary import Summary
from experiments.publish.described import git_sha, policy_title
from experiments.publish.files import CONFIG, COST_COLUMNS, SUMMARY, read_config, require_summary
from experiments.replay.component import component
from experiments.report.study import FINAL, Cell, Line, Study, StudyCollection, StudyPolicy, column_of
from ragtune.core.errors import ConfigError, DatasetError, InputError
from ragtune.core.plain import first_line
from ragtune.core.units import DOCS
from ragtune.core.units import UNITS as ALL
from ragtune.data.join import joined

TABLE, TRACES = "per_query.parquet", "traces.jsonl.gz"


@dataclass(frozen=True)
class FinishedRun:
    """The files of a finished run; ``queries`` is the table of its judged queries. Names of compared runs differ."""

    name: str
    folder: Path
    config: Mapping[str, Any]
    summary: Summary
    queries: Any


def find_runs(texts: Sequence[str], downloads: Path) -> list[FinishedRun]:
    """Find runs by folders or by MLflow run ids, whose files are downloaded into a folder."""
    identities = [str(Path(text).resolve()) if Path(text).is_dir() else text for text in texts]
    for text, identity in zip(texts, identities, strict=True):
        if identities.count(identity) > 1:
            raise ConfigError(f"a run is given twice: {text}")
    short = [Path(one).name if Path(one).is_dir() else one[:8] for one in identities]
    names = [name if short.count(name) == 1 else text for name, text in zip(short, texts, strict=True)]
    folders = [Path(text) if Path(text).is_dir() else _download(text, downloads) for text in texts]
    return [read_run(folder, name) for folder, name in zip(folders, names, strict=True)]


def _download(run_id: str, downloads: Path) -> Path:
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")  # seven small files
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    uri = str(component(compose(["tracking=mlflow"]), "tracking").uri)
    unknown = f"{run_id!r} is neither a run folder nor a run tracked at {uri} (MLFLOW_TRACKING_URI chooses another)"
    if uri.startswith("sqlite:///") and not Path(uri.removeprefix("sqlite:///")).is_file():
        raise ConfigError(unknown)
    folder = downloads / run_id
    try:
        client = MlflowClient(tracking_uri=uri)
        client.get_run(run_id)
        folder.mkdir(parents=True)
        client.download_artifacts(run_id, "", str(folder))
    except MlflowException as error:
        raise ConfigError(f"{unknown}: {first_line(error)}") from None
    return folder


def read_run(folder: Path, name: str) -> FinishedRun:
    """Read the run that a folder holds."""
    import pandas as pd

    with reading(folder / SUMMARY):
        summary = require_summary(folder)
        _ = summary.tags["estimator"], summary.tags["git_sha"]
    with reading(folder / CONFIG):
        config = read_config(folder)
        _ = config["seed"], config["bootstrap"]["resamples"], config["bootstrap"]["level"], config["budget"]
    with reading(folder / TABLE) as file:
        table = pd.read_parquet(file)
        queries = table[table["judged"].astype(bool)].set_index("query_id")
    return FinishedRun(name, folder, config, summary, queries)


def traces_of(run: FinishedRun) -> dict[str, Any]:
    """Read the traces of all judged queries, by query id."""
    with reading(run.folder / TRACES) as file, gzip.open(file, "rt", encoding="utf-8") as lines:
        traces = {trace["query_id"]: trace for trace in map(json.loads, lines)}
    for query_id in run.queries.index:
        if query_id not in traces:
            raise DatasetError(f"{str(file)!r} is damaged: it holds no trace of query {query_id!r}")
    return traces


def rankings_of(run: FinishedRun) -> dict[str, list[str]]:
    """Read the final rankings: document ids, best first, by query id."""
    rankings: dict[str, list[str]] = {}
    with reading(run.folder / "run.trec") as file, file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if len(fields := line.split()) != 6 or not line.endswith("\n"):
                raise DatasetError(f"{str(file)!r} is damaged: line {number} is cut or has not six fields")
            query_id, _, doc_id, *_ = fields
            rankings.setdefault(query_id, []).append(doc_id)
    if not rankings and len(run.queries):
        raise DatasetError(f"{str(file)!r} is damaged: it ranks no document of {len(run.queries)} queries")
    return rankings


def line_of(run: FinishedRun, measures: Sequence[str]) -> Line:
    """Read the anytime curve of a run."""
    import pandas as pd

    with reading(run.folder / "curve.csv") as file:
        curve = pd.read_csv(file)
        _ = curve[[unit.column for unit in ALL if unit.is_always_told]]
        mean, low, high = (
            curve[[f"{m}{part}" for m in measures]].to_numpy(dtype=float) for part in ("", "_low", "_high")
        )
        allowed = curve["documents"].to_numpy(dtype=float)
        costs = curve.reindex(columns=list(COST_COLUMNS), fill_value=0.0).to_numpy(dtype=float)
    if not len(curve):
        raise DatasetError(f"{str(file)!r} is damaged: it holds no row")
    return Line(allowed, costs[:, 0], mean, low, high, costs, steps=True)


@contextmanager
def reading(file: Path) -> Iterator[Path]:
    """Turn every error of reading a file into a :class:`DatasetError` that names the file and the reason."""
    import yaml

    try:
        yield file
    except InputError:
        raise
    except FileNotFoundError:
        raise DatasetError(f"{str(file)!r} is missing: the run is not complete") from None
    except KeyError as error:
        lacks = str(error.args[0]).removesuffix(" not in index")
        raise DatasetError(f"{str(file)!r} is damaged: it lacks {lacks!r}") from None
    except (OSError, EOFError, zlib.error, yaml.YAMLError, ValueError, TypeError, AttributeError) as error:
        raise DatasetError(f"{str(file)!r} is damaged: {first_line(error)}") from None


def study_of_runs(runs: Sequence[FinishedRun], command: str) -> Study:
    """Make a study of runs, the first the reference."""
    require_comparable(runs)
    first = runs[0]
    bootstrap = first.config["bootstrap"]
    measures = [name for name in first.summary.measures if all(name in run.summary.measures for run in runs)]
    if not measures:
        raise ConfigError("the runs share no measure: run them with the same measures=[...]")
    policies = _policies(runs)
    return Study(
        name=f"{first.summary.dataset}: {len(runs)} runs",
        command=command,
        git_sha=git_sha(),
        collections=[_collection(runs, measures)],
        policies=policies,
        reference=policies[0].name,
        columns=[FINAL],
        measures=measures,
        is_grid=False,
        target_label=f"what {policies[0].label} ends with",
        resamples=bootstrap["resamples"],
        permutations=PERMUTATIONS,
        level=bootstrap["level"],
        seed=first.config["seed"],
        notes=_notes(runs, policies, measures[0]),
    )


def reservations(runs: Sequence[FinishedRun]) -> list[str]:
    """Warnings about the runs: failures, inputs that do not cover all queries, and files that have changed."""
    failed = [run for run in runs if run.summary.has_failed]
    found = [f"run {run.name} has failed, first error: {run.summary.failures.first_error}" for run in failed]
    found += [
        f"run {run.name}: {join.missing} {join.gap}" for run in runs for join in run.summary.joins if join.missing
    ]
    first = runs[0]
    for run in runs[1:]:
        if first.config.get("passages") != run.config.get("passages"):
            found.append(f"runs {first.name} and {run.name} read other passages, which count as documents: see tokens")
        both = first.summary.inputs.keys() & run.summary.inputs.keys()
        changed = sorted(file for file in both if first.summary.inputs[file] != run.summary.inputs[file])
        found += [f"{file} has changed between the runs {first.name} and {run.name}" for file in changed]
    return found


def require_comparable(runs: Sequence[FinishedRun]) -> None:
    """Refuse runs of different collections or judged queries."""
    if len(runs) < 2:
        raise ConfigError("name at least two runs: the first is what the others are compared with")
    first = runs[0]
    for run in runs[1:]:
        for what in ("dataset", "corpus_digest"):
            ours, theirs = getattr(first.summary, what), getattr(run.summary, what)
            if ours != theirs:
                raise ConfigError(
                    f"runs of different collections cannot be compared: {what} of {first.name} is {ours!r}, "
                    f"of {run.name} {theirs!r}"
                )
        for one, other in ((first, run), (run, first)):
            both = joined("judged queries", set(one.queries.index), f"run {other.name}", set(other.queries.index))
            if both.missing:
                raise ConfigError(
                    f"{first.name} and {run.name} judge different queries: compare runs of the same queries; of run "
                    f"{one.name}, {both.missing} {both.gap}"
                )


def _policies(runs: Sequence[FinishedRun]) -> list[StudyPolicy]:
    labels = [_label(run) for run in runs]
    found = []
    for run, label in zip(runs, labels, strict=True):
        unique = f"{label} ({run.name})" if labels.count(label) > 1 else label
        kind = "ceiling" if "oracle" in run.summary.tags["estimator"] else "ours"
        found.append(StudyPolicy(run.name, unique, "baseline" if _choices(run) == _choices(runs[0]) else kind))
    return found


def _choices(run: FinishedRun) -> dict[str, Any]:
    """What decides the results of a run, its budget left aside: runs of one policy have the same."""
    return {key: value for key, value in run.config.items() if key != "budget" and key not in WHERE_NOT_WHAT}


def _label(run: FinishedRun) -> str:
    limits = {unit: run.config["budget"].get(unit.limit) for unit in ALL}
    limited = [f"{column_of(limit)} {unit.noun}" for unit, limit in limits.items() if limit is not None]
    return ", ".join([policy_title(run.summary), *(limited or ["no limit"])])


def _notes(runs: Sequence[FinishedRun], policies: Sequence[StudyPolicy], measure: str) -> list[str]:
    found = reservations(runs)
    if (first_stage := runs[0].summary.first_stage.get(measure)) is not None:
        found.append(f"The first stage alone: {measure} {first_stage:.3f}.")
    for run, policy in zip(runs, policies, strict=True):
        chosen = " ".join(run.summary.overrides) or "(defaults)"
        found.append(f"{policy.label}: run `{run.name}`, `{chosen}`, code `{run.summary.tags['git_sha']}`")
    return found


def _collection(runs: Sequence[FinishedRun], measures: Sequence[str]) -> StudyCollection:
    queries = list(runs[0].queries.index)
    cells = {(run.name, FINAL): _cell(run, queries, measures) for run in runs}
    reference = cells[runs[0].name, FINAL]
    return StudyCollection(
        name=runs[0].summary.dataset,
        queries=queries,
        cells=cells,
        curves={run.name: line_of(run, measures) for run in runs},
        target=reference.values.mean(axis=0),
        target_spent=float(reference.in_unit(DOCS).mean()),
        start=line_of(runs[0], measures).mean[0],
    )


def _cell(run: FinishedRun, queries: Sequence[str], measures: Sequence[str]) -> Cell:
    table = run.queries.loc[list(queries)]
    charged = [f"charged_{unit}" for unit in UNITS]
    with reading(run.folder / TABLE):
        _ = table[[charged[i] for i in told(np.zeros(len(UNITS)))]]
        return Cell(
            values=table[list(measures)].to_numpy(dtype=float),
            charged=table.reindex(columns=charged, fill_value=0.0).to_numpy(dtype=float),
            stops=table["stop_reason"].tolist(),
        )
