"""Writes the files of a run, all or none, and reads them."""

from __future__ import annotations

import csv
import gzip
import json
import reprlib
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedWriter, BytesIO
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import yaml
from pydantic import ValidationError
from pydantic_core import to_json

from experiments.datasets.dataset import Dataset
from experiments.evaluate.curves import Curve
from experiments.evaluate.files import naming, whole
from experiments.evaluate.outcomes import Outcomes
from experiments.evaluate.record import UNITS, QueryRecord, told
from experiments.evaluate.summary import Summary
from experiments.publish.figures import FIXED_DEPTH, Columns, draw_curve
from ragtune.core import units
from ragtune.core.errors import DatasetError
from ragtune.data.files.textfile import require_id

CONFIG = "config.yaml"
SUMMARY = "summary.json"
CURVE = "curve.csv"
PICTURE = "curve.png"
"""The curve as a picture. Drawing takes longer than most jobs: a sweep leaves it to :func:`picture_of`."""

COST_COLUMNS = tuple(unit.column for unit in units.UNITS)
"""Columns of ``curve.csv`` with the mean cost so far, in the order of ``UNITS``; see :func:`told`."""


@dataclass(frozen=True)
class Results:
    """Everything that a finished run reports; the outcomes stand in the order of the queries."""

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
        config = json.loads(json.dumps(dict(results.config)))  # plain data
        with naming(partial / CONFIG):
            text = yaml.safe_dump(config, sort_keys=False, allow_unicode=True)
            (partial / CONFIG).write_text(text, encoding="utf-8")
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
        return Summary.model_validate_json(file.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        why = "is missing" if first["type"] == "missing" else f"is {reprlib.repr(first['input'])}: {first['msg']}"
        name = ".".join(map(str, first["loc"])) or "it"
        raise DatasetError(f"{str(file)!r} is damaged: {name} {why}") from None


def require_summary(folder: Path) -> Summary:
    """The summary of the run that a folder holds."""
    summary = read_summary(folder)
    if summary is None:
        raise DatasetError(f"{str(folder)!r} holds no complete run: {SUMMARY} is missing")
    return summary


def read_config(folder: Path) -> dict[str, Any]:
    """The configuration of the run that a folder holds."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the one in C takes a tenth of the time
    config: dict[str, Any] = yaml.load((folder / CONFIG).read_text(encoding="utf-8"), loader)  # noqa: S506 - it is safe
    return config


def per_query_table(results: Results) -> Columns:
    """One row a query: measures (missing where unjudged), costs, stop reason and context size."""
    outcomes, curve = results.outcomes, results.curve
    query_ids = [outcome.query_id for outcome in outcomes]
    judged = np.fromiter(map(results.dataset.counts, query_ids), bool, len(outcomes))
    measured = np.full((len(judged), len(curve.measures)), np.nan)
    measured[judged] = curve.per_query[:, -1, :]
    table: Columns = {"query_id": query_ids, "judged": judged}
    table |= {name: measured[:, j] for j, name in enumerate(curve.measures)}
    table |= _costs(outcomes)
    table["stop_reason"] = [outcome.stop_reason for outcome in outcomes]
    sizes = ("pool_docs", "dropped_docs", "context_docs", "context_tokens")
    return table | dict(zip(sizes, outcomes.column("sizes").T, strict=True))


def _costs(outcomes: Outcomes) -> Columns:
    spent = {kind: outcomes.column(kind).astype(float) for kind in ("charged", "actual")}
    known = told([costs.sum(axis=0) for costs in spent.values()])
    table: Columns = {}
    for kind, costs in spent.items():
        for i in known:
            column = costs[:, i]
            is_whole = units.UNITS[i].is_count and (column == np.floor(column)).all()
            table[f"{kind}_{UNITS[i]}"] = column.astype(int) if is_whole else column
    return table


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
    file, traces = folder / "run.trec", folder / "traces.jsonl.gz"
    with naming(file), file.open("w", encoding="utf-8", newline="\n") as out, _packed(traces) as packed:
        for record in records:
            out.write(_in_trec(record.query_id, record.ranking))
            with naming(traces):
                packed.write(record.trace.encode() + b"\n")


def _in_trec(query_id: str, ranking: Sequence[str]) -> str:
    letters, n = "".join(ranking), len(ranking)
    if not (letters.isascii() and letters.isprintable() and " " not in letters and all(ranking)):
        for doc_id in ranking:
            require_id(doc_id, "retrieved document")
    return "".join([f"{query_id} Q0 {doc_id} {i + 1} {n - i} ragtune\n" for i, doc_id in enumerate(ranking)])


@contextmanager
def _packed(file: Path) -> Iterator[IO[bytes]]:
    with (
        naming(file),
        file.open("wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=1, mtime=0) as packed,
        BufferedWriter(packed, 2**18) as out,
    ):
        yield cast(IO[bytes], out)


def write_csv(file: Path, table: Columns) -> None:
    """Write a table as CSV, every number with the digits that tell it from all others."""
    with naming(file), file.open("w", encoding="utf-8", newline="") as out:
        lines = csv.writer(out, lineterminator="\n")
        lines.writerow(table)
        lines.writerows(_rows(table))


def read_csv(file: Path) -> Columns:
    """Read a table of numbers that :func:`write_csv` has written, None where one is missing."""
    with file.open(encoding="utf-8", newline="") as lines:
        names, *rows = csv.reader(lines)
    columns = zip(*rows, strict=True)
    return {name: [float(cell) if cell else None for cell in cells] for name, cells in zip(names, columns, strict=True)}


def write_parquet(file: Path, table: Columns) -> None:
    """Write a table as Parquet, without pandas: loading it takes longer than most runs."""
    import pyarrow as pa
    from pyarrow import json as pajson
    from pyarrow import parquet

    kinds = [str(values.dtype) if isinstance(values, np.ndarray) else "large_string" for values in table.values()]
    schema = pa.schema(list(zip(table, kinds, strict=True)))
    rows = (to_json(dict(zip(table, row, strict=True)), inf_nan_mode="constants") for row in _rows(table))
    # Arrow's own reader: its conversion of Python's lists loads pandas.
    found = pajson.read_json(BytesIO(b"\n".join(rows)), parse_options=pajson.ParseOptions(explicit_schema=schema))
    with naming(file):
        parquet.write_table(found.combine_chunks(), file)


def _rows(table: Columns) -> Iterator[list[Any]]:
    columns = (values.tolist() if isinstance(values, np.ndarray) else values for values in table.values())
    return ([None if value != value else value for value in row] for row in zip(*columns, strict=True))
