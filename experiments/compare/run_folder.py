"""Finds finished runs, as folders or by MLflow id, and reads their files. Errors name the damaged file."""

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

from experiments.config.compose import compose
from experiments.evaluate.summary import Summary
from experiments.publish.files import CONFIG, COST_COLUMNS, SUMMARY, read_config, require_summary
from experiments.replay.component import component
from experiments.report.study import Line
from ragtune.core.errors import ConfigError, DatasetError, InputError
from ragtune.core.plain import first_line
from ragtune.core.units import UNITS

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
        _ = curve[[unit.column for unit in UNITS if unit.is_always_told]]
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
