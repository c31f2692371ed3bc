"""Small tables, written as pandas writes them; loading pandas takes longer than most runs on a small collection."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic_core import to_json

from experiments.evaluate.files import naming

Column = Sequence[Any] | NDArray[Any]
"""Texts, truth values, integers, or numbers; where one is missing, None or NaN."""

Columns = dict[str, Column]
"""Columns by name, all of one length."""

_PANDAS = {"large_string": ("object", "str"), "double": ("float64", "float64")}
"""What pandas calls types that Arrow calls otherwise, in its notes for other readers and in its frames."""


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
    """Write a table as Parquet, from which pandas reads its own types."""
    from pyarrow import parquet

    with naming(file):
        parquet.write_table(_arrow_table(table), file)


def _arrow_table(table: Columns) -> Any:
    import pyarrow as pa
    from pyarrow import json as pajson

    schema = pa.schema([(name, _arrow_type(values)) for name, values in table.items()])
    notes = [_note(field.name, str(field.type)) for field in schema]
    about: dict[str, Any] = {"index_columns": [], "column_indexes": [], "columns": notes, "attributes": {}}
    about |= {"creator": {"library": "pyarrow", "version": pa.__version__}, "pandas_version": _pandas_version()}
    rows = (to_json(dict(zip(table, row, strict=True)), inf_nan_mode="constants") for row in _rows(table))
    # Arrow's own reader: its conversion of Python's lists loads pandas.
    found = pajson.read_json(BytesIO(b"\n".join(rows)), parse_options=pajson.ParseOptions(explicit_schema=schema))
    return found.combine_chunks().replace_schema_metadata({"pandas": json.dumps(about)})


@cache
def _pandas_version() -> str:
    return version("pandas")


def _rows(table: Columns) -> Iterator[list[Any]]:
    """The rows, with None for what is not a number."""
    columns = (values.tolist() if isinstance(values, np.ndarray) else values for values in table.values())
    return ([None if value != value else value for value in row] for row in zip(*columns, strict=True))


def _arrow_type(values: Column) -> str:
    if isinstance(values, np.ndarray):
        return str(values.dtype)
    kinds = {type(value) for value in values} - {type(None)}
    if kinds <= {str}:
        return "large_string"
    return {frozenset({bool}): "bool", frozenset({int}): "int64"}.get(frozenset(kinds), "float64")


def _note(name: str, kind: str) -> Mapping[str, Any]:
    pandas_type, numpy_type = _PANDAS.get(kind, (kind, kind))
    about = {"name": name, "field_name": name, "pandas_type": pandas_type, "numpy_type": numpy_type}
    return {**about, "metadata": None}
