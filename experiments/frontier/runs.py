"""Tracked runs, side by side: from MLflow ids or run folders to a study."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.build import component, load_dataset
from experiments.config import compose
from experiments.frontier.decisions import decisions_from_trace
from experiments.frontier.report import grades_of, shown
from experiments.frontier.study import Cell, Collection, Line, Policy, Study
from experiments.outputs import read_summary
from experiments.provenance import git_sha
from ragtune.core.errors import ConfigError, DatasetError

COLUMN = "final"
TRACED_RUNS = 4
"""Runs whose decisions the report can show: the first ones."""


@dataclass(frozen=True)
class Run:
    """A finished run's folder, read."""

    name: str
    folder: Path
    config: Mapping[str, Any]
    summary: Mapping[str, Any]
    queries: Any


def find_run(text: str, downloads: Path) -> Run:
    """The run of a folder or of an MLflow run id, whose files are then downloaded.

    Args:
        text: as the user gave it.
        downloads: folder for the files of tracked runs.

    Raises:
        ConfigError: if there is neither such a folder nor such a tracked run.
        DatasetError: if the run is not complete.
    """
    folder = Path(text)
    return (
        read_run(folder, folder.resolve().name) if folder.is_dir() else read_run(_download(text, downloads), text[:8])
    )


def read_run(folder: Path, name: str) -> Run:
    """The run that a folder holds.

    Raises:
        DatasetError: if it holds no complete run.
    """
    import pandas as pd
    import yaml

    summary = read_summary(folder)
    if summary is None:
        raise DatasetError(f"{str(folder)!r} holds no complete run: summary.json is missing")
    config = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
    table = pd.read_parquet(folder / "per_query.parquet")
    return Run(name, folder, config, summary, table[table["judged"]].set_index("query_id"))


def _download(run_id: str, downloads: Path) -> Path:
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    uri = str(component(compose(["tracking=mlflow"]), "tracking").uri)
    unknown = f"{run_id!r} is neither a run folder nor a run tracked at {uri} (MLFLOW_TRACKING_URI chooses another)"
    if uri.startswith("sqlite:///") and not Path(uri.removeprefix("sqlite:///")).is_file():
        raise ConfigError(unknown)
    folder = downloads / run_id
    folder.mkdir(parents=True, exist_ok=True)
    try:
        client = MlflowClient(tracking_uri=uri)
        client.get_run(run_id)
        client.download_artifacts(run_id, "", str(folder))
    except MlflowException as error:
        folder.rmdir()
        raise ConfigError(f"{unknown}: {str(error).splitlines()[0]}") from None
    return folder


def study_of_runs(runs: Sequence[Run], command: str, *, texts: bool) -> Study:
    """The runs as a study whose reference is the first.

    Args:
        runs: at least two.
        command: what makes the study again.
        texts: show queries, documents and judgments in the report; needs the collection on this machine.

    Raises:
        ConfigError: if there are fewer than two, one is given twice, or they are not of the same queries of the same
            collection, or share no measure.
    """
    _require_comparable(runs)
    first = runs[0]
    bootstrap = first.config["bootstrap"]
    measures = [name for name in first.summary["measures"] if all(name in run.summary["measures"] for run in runs)]
    if not measures:
        raise ConfigError("the runs share no measure: run them with the same measures=[...]")
    policies = _policies(runs)
    return Study(
        name=f"{first.summary['dataset']}: {len(runs)} runs",
        command=command,
        git_sha=git_sha(),
        collections=[_collection(runs, measures, texts=texts)],
        policies=policies,
        reference=policies[0].name,
        columns=[COLUMN],
        measures=measures,
        family="policies",
        target_label=f"what {policies[0].label} ends with",
        traced_column=COLUMN,
        resamples=bootstrap["resamples"],
        permutations=9999,
        level=bootstrap["level"],
        seed=first.config["seed"],
        notes=[_note(run, policy) for run, policy in zip(runs, policies, strict=True)],
    )


def _require_comparable(runs: Sequence[Run]) -> None:
    if len(runs) < 2:
        raise ConfigError("name at least two runs: the first is what the others are compared with")
    names = [run.name for run in runs]
    if len(set(names)) < len(names):
        raise ConfigError(f"a run is given twice: {', '.join(names)}")
    first = runs[0]
    for run in runs[1:]:
        for what in ("dataset", "corpus_digest"):
            ours, theirs = first.summary[what], run.summary[what]
            if ours != theirs:
                raise ConfigError(
                    f"runs of different collections cannot be compared: {what} of {first.name} is {ours!r}, "
                    f"of {run.name} {theirs!r}"
                )
        if set(run.queries.index) != set(first.queries.index):
            raise ConfigError(f"{first.name} and {run.name} judge different queries: compare runs of the same queries")


def _policies(runs: Sequence[Run]) -> list[Policy]:
    labels = [_label(run) for run in runs]
    unique = [
        f"{label} ({run.name})" if labels.count(label) > 1 else label for label, run in zip(labels, runs, strict=True)
    ]
    kinds = ["ceiling" if "oracle" in run.summary["tags"]["estimator"] else "ours" for run in runs]
    kinds[0] = "incumbent"
    return [Policy(run.name, label, kind) for run, label, kind in zip(runs, unique, kinds, strict=True)]


def _label(run: Run) -> str:
    limit = run.config["budget"].get("max_reranker_docs")
    return f"{run.summary['policy']}, {'no limit' if limit is None else f'{limit} documents'}"


def _note(run: Run, policy: Policy) -> str:
    chosen = " ".join(run.summary["overrides"]) or "(defaults)"
    return f"{policy.label}: run `{run.name}`, `{chosen}`, code `{run.summary['tags']['git_sha']}`"


def _collection(runs: Sequence[Run], measures: Sequence[str], *, texts: bool) -> Collection:
    queries = list(runs[0].queries.index)
    cells = {(run.name, COLUMN): _cell(run, queries, measures, traced=i < TRACED_RUNS) for i, run in enumerate(runs)}
    reference = cells[runs[0].name, COLUMN]
    dataset = load_dataset(runs[0].config) if texts else None
    return Collection(
        name=runs[0].summary["dataset"],
        queries=queries,
        query_texts={q: dataset.queries[q] for q in queries} if dataset else {},
        doc_texts={doc: dataset.corpus[doc].content for doc in shown(cells.values())} if dataset else {},
        grades=grades_of(dataset.qrels, cells.values()) if dataset else {},
        cells=cells,
        lines={run.name: _line(run, measures) for run in runs},
        target=reference.values.mean(axis=0),
        target_docs=float(reference.docs.mean()),
    )


def _cell(run: Run, queries: Sequence[str], measures: Sequence[str], *, traced: bool) -> Cell:
    table = run.queries.loc[list(queries)]
    traces = _traces(run.folder / "traces.jsonl.gz")
    rankings = _rankings(run.folder / "run.trec") if traced else {}
    decisions = {q: decisions_from_trace(traces[q], None, rankings.get(q, [])) for q in queries} if traced else {}
    return Cell(
        values=table[list(measures)].to_numpy(dtype=float),
        docs=table["charged_docs"].to_numpy(dtype=np.int64),
        calls=table["charged_calls"].to_numpy(dtype=np.int64),
        expanded=np.array([_expanded(traces[q]) for q in queries], dtype=np.int64),
        stops=table["stop_reason"].tolist(),
        decisions=decisions,
    )


def _traces(file: Path) -> dict[str, Any]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return {trace["query_id"]: trace for trace in map(json.loads, lines)}


def _expanded(trace: Mapping[str, Any]) -> int:
    return sum(event["details"]["count"] for event in trace["events"] if event["action"] == "consume_expansion")


def _rankings(file: Path) -> dict[str, list[str]]:
    rankings: dict[str, list[str]] = {}
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            query_id, _, doc_id, *_ = line.split()
            rankings.setdefault(query_id, []).append(doc_id)
    return rankings


def _line(run: Run, measures: Sequence[str]) -> Line:
    import pandas as pd

    curve = pd.read_csv(run.folder / "curve.csv")
    columns = {part: curve[[f"{m}{part}" for m in measures]].to_numpy(dtype=float) for part in ("", "_low", "_high")}
    allowed, docs = (curve[name].to_numpy(dtype=float) for name in ("documents", "documents_mean"))
    return Line(allowed, docs, columns[""], columns["_low"], columns["_high"])
