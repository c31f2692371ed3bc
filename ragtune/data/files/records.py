"""Records of a file whatever its form: JSON lines, CSV, TSV, Parquet, Arrow, or a folder of such files."""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragtune.core.errors import DatasetError
from ragtune.core.plain import quoted
from ragtune.data.files.textfile import read_json, read_lines, read_raw_lines

FORMS = "JSON lines, CSV or TSV (each gzipped or not), Parquet, Arrow, or a folder of Hugging Face datasets"
"""The forms that can be read, for messages."""

SHARDS = (".parquet", ".arrow", ".jsonl", ".jsonl.gz", ".csv", ".csv.gz", ".tsv", ".tsv.gz")
"""How the names of the files of a folder end."""

QUERY_ID = ("query_id", "qid", "query-id", "q_id", "queryid", "topic_id", "topic")
DOC_ID = ("doc_id", "docno", "docid", "corpus-id", "corpus_id", "document_id", "doc-id", "d_id", "did", "pid")
"""Names of columns of ids; the first that a file has counts."""

Row = tuple[str, tuple[Any, ...]]


@dataclass(frozen=True)
class Schema:
    """The wanted values of a record."""

    names: Mapping[str, Sequence[str]]  # by our name, the names of columns that hold the value; the first found counts
    required: frozenset[str]  # values that a table must have a column for
    layouts: Sequence[Sequence[str]] = ()  # values of a TSV's row, in order, where it has no header
    is_spaced: bool = False  # columns may be separated by any whitespace, as in TREC's files
    is_text: bool = False  # blanks after the commas of a CSV belong to the values

    def choose(self, columns: Sequence[str]) -> list[str | None]:
        """Return the column of each wanted value, None for a missing one."""
        return [next((name for name in names if name in columns), None) for names in self.names.values()]

    def lacks(self, chosen: Sequence[str | None]) -> list[str]:
        """Return the required values without a column."""
        return [ours for ours, name in zip(self.names, chosen, strict=True) if name is None and ours in self.required]

    def require(self, columns: Sequence[str], where: str) -> list[str | None]:
        """As :meth:`choose`."""
        chosen = self.choose(columns)
        if missing := self.lacks(chosen):
            allowed = "; ".join(f"{ours!r} may be called {', '.join(self.names[ours])}" for ours in missing)
            lacks = " and ".join(map(repr, missing))
            raise DatasetError(f"{where}: no column for {lacks}: it has {quoted(', '.join(columns))}; {allowed}")
        twice = next((name for name in chosen if name is not None and columns.count(name) > 1), None)
        if twice is not None:
            has = quoted(", ".join(columns))
            raise DatasetError(f"{where}: the column {quoted(twice)} comes twice: it has {has}; allowed is once")
        return chosen


def read_records(path: Path, schema: Schema) -> Iterator[Row]:
    """Yield the place of each record (``FILE:LINE``) and its values in the schema's order, None for a missing one."""
    for file in record_files(path):
        form = text_form(file, is_spaced=schema.is_spaced)
        if form == "markup":
            raise DatasetError(f"{file}:1: it looks like XML or SGML: allowed are {FORMS}")
        if form == "arrow":
            yield from _arrow_rows(file, schema)
        elif form == "json":
            yield from _json_rows(file, schema)
        elif form != "empty":
            yield from _text_rows(file, schema, form)


def record_files(path: Path) -> list[Path]:
    """The file, or a folder's pieces of one table in order of name; of several splits, ``FOLDER/SPLIT`` names one."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise DatasetError(f"{str(path)!r} does not exist")
    endings = {ending for ending in SHARDS if any(path.glob(f"*{ending}"))}
    splits = [folder for folder in sorted(path.iterdir()) if folder.is_dir() and not folder.name.startswith(".")]
    if not endings and len(splits) == 1:
        return record_files(splits[0])
    if not endings and splits:
        raise DatasetError(f"{str(path)!r} holds {len(splits)} splits: name one: {', '.join(map(str, splits))}")
    if len(endings) != 1:
        found = f"files of several forms ({', '.join(sorted(endings))})" if endings else "no such files"
        raise DatasetError(
            f"folder {str(path)!r} holds {found}: allowed are the pieces of one table, e.g. a split that Hugging "
            f"Face's datasets saved, in files that end in one of {', '.join(SHARDS)}"
        )
    # Beside what it saved, the library puts files of its own cache.
    return sorted(file for file in path.glob(f"*{endings.pop()}") if not file.name.startswith("cache-"))


def text_form(path: Path, *, is_spaced: bool = False) -> str:
    """The form of a file: ``arrow`` (Parquet too), ``json``, ``markup``, ``tsv``, ``csv``, ``spaced``, ``empty``."""
    if path.suffix in (".parquet", ".arrow"):
        return "arrow"
    with path.open("rb") as file:
        if file.read(8).startswith((PARQUET, *ARROW)):
            return "arrow"
    line = next((text for _, text in read_lines(path)), "").strip(" ")
    if line[:1] in ("{", "[", "<"):
        return "markup" if line[0] == "<" else "json"
    if not line:
        return "empty"
    if "\t" in line:
        return "tsv"
    has_commas = ", " in line or " ," in line
    return "spaced" if is_spaced and not has_commas and len(line.split()) > 1 else "csv"


def _json_rows(file: Path, schema: Schema) -> Iterator[Row]:
    wanted = list(schema.names.values())
    for number, line in read_lines(file):
        where = f"{file}:{number}"
        try:
            row = read_json(line)
        except ValueError as error:
            raise DatasetError(f"{where}: malformed JSON: {error}") from None
        if not isinstance(row, dict):
            raise DatasetError(f"{where}: expected a JSON object, found {type(row).__name__}")
        yield where, tuple(next((row[name] for name in names if name in row), None) for names in wanted)


def _text_rows(file: Path, schema: Schema, form: str) -> Iterator[Row]:
    """Rows with a header or, but for CSV, in one of the layouts."""
    lines = _csv_fields(file, schema) if form == "csv" else _separated_fields(file, schema, form)
    columns: Sequence[str] = ()
    chosen: list[int | None] = []
    for number, fields in lines:
        where = f"{file}:{number}"
        if not columns:
            columns = [name.strip() for name in fields]
            has_header = form == "csv" or not schema.lacks(schema.choose(columns))
            if not has_header:
                columns = _layout(fields, schema, where)
            names = (
                schema.require(columns, where) if has_header else [n if n in columns else None for n in schema.names]
            )
            chosen = [None if name is None else columns.index(name) for name in names]
            if has_header:
                continue
        if len(fields) != len(columns):
            between = "commas" if form == "csv" else "blanks or tabs" if schema.is_spaced else "tabs"
            raise DatasetError(
                f"{where}: malformed line {quoted(' '.join(fields))}: expected {', '.join(columns)}, separated by "
                f"{between}"
            )
        yield where, tuple([None if at is None else fields[at] for at in chosen])


def _csv_fields(file: Path, schema: Schema) -> Iterator[tuple[int, list[str]]]:
    """Rows quoted as in RFC 4180, so that a text may have several lines; the number is that of the first."""
    # Python's own limit of 128 KiB is less than a long document.
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    reader = csv.reader((line for _, line in read_raw_lines(file)), strict=True, skipinitialspace=not schema.is_text)
    number = 1
    try:
        for fields in reader:
            if fields:
                yield number, fields
            number = reader.line_num + 1
    except csv.Error as error:
        raise DatasetError(f"{file}:{number}: malformed CSV: {error}") from None


def _separated_fields(file: Path, schema: Schema, form: str) -> Iterator[tuple[int, list[str]]]:
    """The fields of each line; blanks and tabs mixed separate them, but where tabs alone fit better."""
    size = 0
    for number, line in read_lines(file):
        by_tabs = line.split("\t")
        fields = by_tabs if form == "tsv" and not schema.is_spaced else line.split()
        if schema.is_spaced:
            by_tabs = [field.strip() for field in by_tabs]
            fits = len(fields) != size == len(by_tabs) if size else not schema.lacks(schema.choose(by_tabs))
            fields = by_tabs if fits else fields
        size = size or len(fields)
        yield number, fields


def _layout(fields: Sequence[str], schema: Schema, where: str) -> Sequence[str]:
    for layout in schema.layouts:
        if len(layout) == len(fields):
            return layout
    allowed = [", ".join(layout) for layout in schema.layouts]
    header = "a header with columns for " + ", ".join(ours for ours in schema.names if ours in schema.required)
    raise DatasetError(
        f"{where}: malformed line {quoted(' '.join(fields))}: expected {' or '.join([*allowed, header])}"
    )


PARQUET = b"PAR1"
ARROW = (b"ARROW1", b"\xff\xff\xff\xff")
"""How the files begin: Arrow's with an index at the end, and its streams, which Hugging Face's ``datasets`` writes."""

_ROWS = 1024


def _arrow_rows(file: Path, schema: Schema) -> Iterator[Row]:
    """Rows of a Parquet or Arrow file. Memory holds one batch of rows."""
    with file.open("rb") as opened:
        magic = opened.read(8)
    is_parquet = file.suffix == ".parquet" or magic.startswith(PARQUET)
    number = 0
    try:
        with ExitStack() as stack:
            columns, batches = _opened(file, None if is_parquet else magic, stack)
            chosen = schema.require(columns, str(file))
            for batch in batches([name for name in chosen if name is not None]):
                batch.validate(full=True)  # in a damaged Arrow file, offsets may point anywhere in memory
                values = [[None] * len(batch) if name is None else batch.column(name).to_pylist() for name in chosen]
                for row in zip(*values, strict=True):
                    number += 1
                    yield f"{file}: row {number}", row
    except DatasetError:
        raise
    except Exception as error:  # pyarrow's own, OSError, ValueError, of damaged files also others
        reason = quoted(" ".join(str(error).split()))[1:-1]
        kind, place = "Parquet" if is_parquet else "Arrow", f" after row {number}" if number else ""
        raise DatasetError(f"{file}: cannot be read as {kind}{place}: {reason}") from None


def _opened(
    file: Path, magic: bytes | None, stack: ExitStack
) -> tuple[list[str], Callable[[list[str]], Iterable[Any]]]:
    """The names of the columns, and a function that reads batches with at least the given columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if magic is None:
        # pq.read_table loads the code for folders of files, which takes a third of a second.
        table = stack.enter_context(pq.ParquetFile(file, pre_buffer=False))
        return table.schema_arrow.names, lambda columns: table.iter_batches(_ROWS, columns=columns)
    source = stack.enter_context(pa.OSFile(str(file)))
    if magic.startswith(ARROW[0]):
        reader = stack.enter_context(pa.ipc.open_file(source))
        return reader.schema.names, lambda _: map(reader.get_batch, range(reader.num_record_batches))
    stream = stack.enter_context(pa.ipc.open_stream(source))
    return stream.schema.names, lambda _: stream
