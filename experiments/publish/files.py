"""Writes the files of a run, all or none, and reads its summary."""

from __future__ import annotations

import gzip
import json
import reprlib
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from io import BufferedWriter
from operator import add
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import yaml
from pydantic import ValidationError

from experiments.datasets.dataset import Dataset
from experiments.evaluate.curves import Curve
from experiments.evaluate.files import naming, whole
from experiments.evaluate.outcomes import Outcomes
from experiments.evaluate.record import UNITS, QueryRecord, told
from experiments.evaluate.summary import Summary
from experiments.publish.columns import Columns, read_csv, write_csv, write_parquet
from experiments.publish.figures import FIXED_DEPTH, draw_curve
from ragtune.core import units
from ragtune.core.arrays import FloatArray
from ragtune.core.errors import DatasetError
from ragtune.data.files.textfile import read_json, require_id

CONFIG = "config.yaml"
SUMMARY = "summary.json"
CURVE = "curve.csv"

PICTURE = "curve.png"
"""The curve as a picture. Drawing takes longer than most jobs of a sweep, whose pictures few look at: a sweep leaves
them to :func:`picture_of`."""

COST_COLUMNS = tuple(unit.column for unit in units.UNITS)
"""Columns of ``curve.csv`` with the mean cost so far, in the order of ``UNITS``; see :func:`told`."""


@dataclass(frozen=True)
class Results:
    """Everything that a finished run reports.

    Attributes:
        config: resolved configuration.
        dataset: the collection.
        records: of all replayed queries, by query id.
        outcomes: of the same queries, in the order in which they are told.
        curve: of the judged queries.
        summary: the figures.
        depth_line: what fixed depth reaches, see :func:`experiments.evaluate.baselines.depth_line`.
    """

    config: Mapping[str, Any]
    dataset: Dataset
    records: Mapping[str, QueryRecord]
    outcomes: Outcomes
    curve: Curve
    summary: Summary
    depth_line: Mapping[int, float] | None = None


def write_results(folder: Path, results: Results, *, picture: bool = True) -> None:
    """Write every file of a run into its folder. The summary comes last, so a folder with one holds a complete run."""
    partial = folder / ".partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        write_yaml(partial / CONFIG, results.config)
        _write_records(partial, (results.records[outcome.query_id] for outcome in results.outcomes))
        write_parquet(partial / "per_query.parquet", per_query_table(results))
        curve = curve_table(results.curve, results.depth_line)
        write_csv(partial / CURVE, curve)
        if picture:
            draw_curve(partial / PICTURE, curve, results.summary)
        for name in (SUMMARY, PICTURE):  # of an earlier run, whose files are replaced now
            (folder / name).unlink(missing_ok=True)
        for file in sorted(partial.iterdir()):
            file.replace(folder / file.name)
        write_summary(folder, results.summary)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def picture_of(folder: Path) -> Path:
    """The picture of a run's curve, drawn from the run's files if it is not there."""
    picture = folder / PICTURE
    if not picture.exists():
        with whole(picture) as beside:
            draw_curve(beside, read_csv(folder / CURVE), require_summary(folder))
    return picture


def write_summary(folder: Path, summary: Summary) -> None:
    """Replace the summary atomically."""
    write_text(folder / SUMMARY, json.dumps(summary.plain(), indent=2) + "\n")


def write_text(file: Path, text: str) -> None:
    """Write a text file, which is whole or missing."""
    with whole(file) as beside:
        beside.write_text(text, encoding="utf-8", newline="\n")


def read_summary(folder: Path) -> Summary | None:
    """The summary of the run that a folder holds; None if it holds no complete run."""
    file = folder / SUMMARY
    if not file.is_file():
        return None
    try:
        content = read_json(file.read_bytes())
        if not isinstance(content, dict):
            raise ValueError("it is no JSON object")
        return Summary.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        why = "is missing" if first["type"] == "missing" else f"is {reprlib.repr(first['input'])}: {first['msg']}"
        raise DatasetError(f"{str(file)!r} is damaged: {'.'.join(map(str, first['loc']))} {why}") from None
    except ValueError as error:
        raise DatasetError(f"{str(file)!r} is damaged: {error}") from None


def require_summary(folder: Path) -> Summary:
    """The summary of the run that a folder holds."""
    summary = read_summary(folder)
    if summary is None:
        raise DatasetError(f"{str(folder)!r} holds no complete run: {SUMMARY} is missing")
    return summary


def write_yaml(file: Path, config: Mapping[str, Any]) -> None:
    """Write plain data as YAML, with the keys in their order."""
    with naming(file):
        file.write_text("".join(_yaml(json.dumps({key: value})) for key, value in config.items()), encoding="utf-8")


def read_config(folder: Path) -> dict[str, Any]:
    """The configuration of the run that a folder holds."""
    config: dict[str, Any] = yaml.safe_load((folder / CONFIG).read_text(encoding="utf-8"))
    return config


@lru_cache(maxsize=128)
def _yaml(text: str) -> str:
    """Data in JSON as YAML; the jobs of a sweep have most of it in common."""
    return str(yaml.safe_dump(json.loads(text), sort_keys=False, allow_unicode=True))


_SIZES = ("pool_docs", "dropped_docs", "context_docs", "context_tokens")
"""The columns of :attr:`Outcome.sizes`."""


def per_query_table(results: Results) -> Columns:
    """One row a query: measures (missing where unjudged), costs, stop reason and context size."""
    outcomes, curve = results.outcomes, results.curve
    query_ids = [outcome.query_id for outcome in outcomes]
    judged = np.fromiter(map(results.dataset.counts, query_ids), bool, len(outcomes))
    measured = np.full((len(judged), len(curve.measures)), np.nan)
    measured[judged] = curve.per_query[:, -1, :]
    table: Columns = {"query_id": query_ids, "judged": judged}
    table |= {name: measured[:, j] for j, name in enumerate(curve.measures)}
    table |= {name: column.astype(kind) for name, (column, kind) in _costs(outcomes).items()}
    table["stop_reason"] = [outcome.stop_reason for outcome in outcomes]
    return table | dict(zip(_SIZES, outcomes.column("sizes").T, strict=True))


def _costs(outcomes: Outcomes) -> dict[str, tuple[FloatArray, type]]:
    """The columns of costs by name, and the kind of their numbers: those that are counted are integers."""
    spent = {kind: outcomes.column(kind).astype(float) for kind in ("charged", "actual")}
    known = told([costs.sum(axis=0) for costs in spent.values()])
    columns = {f"{kind}_{UNITS[i]}": (units.UNITS[i], costs[:, i]) for kind, costs in spent.items() for i in known}
    return {
        name: (column, int if unit.is_count and _is_whole(column) else float)
        for name, (unit, column) in columns.items()
    }


def _is_whole(amounts: FloatArray) -> bool:
    return bool((amounts == np.floor(amounts)).all())


def curve_table(curve: Curve, depth_line: Mapping[int, float] | None = None) -> Columns:
    """One row a cost step: documents allowed, mean costs, mean and interval of each measure, and fixed depth's line."""
    table: Columns = {"documents": curve.docs.tolist()}
    table |= {COST_COLUMNS[i]: curve.costs[:, i].tolist() for i in told(curve.costs)}
    for j, name in enumerate(curve.measures):
        for end, values in (("", curve.mean), ("_low", curve.low), ("_high", curve.high)):
            table[f"{name}{end}"] = values[:, j].tolist()
    if depth_line is not None:
        table[FIXED_DEPTH] = [depth_line.get(docs) for docs in table["documents"]]
    return table


def _write_records(folder: Path, records: Iterable[QueryRecord]) -> None:
    """Write the rankings and the traces, for which each record is read once."""
    file, traces = folder / "run.trec", folder / "traces.jsonl.gz"
    with naming(file), file.open("w", encoding="utf-8", newline="\n") as out, _packed(traces) as packed:
        for record in records:
            out.write(_in_trec(record.query_id, record.ranking))
            with naming(traces):
                packed.write(record.trace.encode() + b"\n")


def _in_trec(query_id: str, ranking: Sequence[str]) -> str:
    _require_ids(ranking)
    return f"{query_id} Q0 ".join(["", *map(add, ranking, _ends(len(ranking)))])


def _require_ids(ranking: Sequence[str]) -> None:
    """Refuse documents that a TREC file cannot hold; most rankings are seen to be sound as a whole."""
    letters = "".join(ranking)
    if not (letters.isascii() and letters.isprintable() and " " not in letters and all(ranking)):
        for doc_id in ranking:
            require_id(doc_id, "retrieved document")


@lru_cache(maxsize=8)
def _ends(n: int) -> list[str]:
    """What stands behind the document in each line of a ranking: rank, a score that falls with it, tag."""
    return [f" {rank} {n - rank + 1} ragtune\n" for rank in range(1, n + 1)]


_TRACES = 2**18
"""Bytes of traces that are compressed at once."""


@contextmanager
def _packed(file: Path) -> Iterator[IO[bytes]]:
    with (
        naming(file),
        file.open("wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=1, mtime=0) as packed,
        BufferedWriter(packed, _TRACES) as out,
    ):
        yield cast(IO[bytes], out)
