"""Files that Apache Arrow reads, some rows at a time: its tables, Parquet and its own, and plain lines of text.

The one module of this package that needs pyarrow, which it loads once there is such a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from ragtune.core.arrays import IntArray
from ragtune.core.errors import DatasetError
from ragtune.core.plain import quoted
from ragtune.data.runs.run import Entries, Named

PARQUET = b"PAR1"
ARROW = (b"ARROW1", b"\xff\xff\xff\xff")
"""How the files begin: Arrow's with an index at the end, and its streams, which Hugging Face's ``datasets`` writes."""

_ROWS = 1024

_MANY = 2**16
"""Rows that are read at once where they stay columns."""


def read_columns(
    path: Path, choose: Callable[[Sequence[str]], Sequence[str | None]]
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Number (from 1) and values of every row. No more than one batch of rows is held at a time.

    Args:
        path: a Parquet or Arrow file.
        choose: is given the names of the columns and returns those that are wanted, in order; None for a column that is
            not there, whose values are None.

    Raises:
        DatasetError: naming the file, if it cannot be read.
    """
    number = 0
    batches = _batches(path, choose)
    while True:
        try:
            columns = next(batches, None)
        except DatasetError:
            raise
        except Exception as error:  # pyarrow's own, OSError, ValueError, of damaged files also others
            reason = quoted(" ".join(str(error).split()))[1:-1]
            place = f" after row {number}" if number else ""
            raise DatasetError(f"{path}: cannot be read as {_kind(path)}{place}: {reason}") from None
        if columns is None:
            return
        for values in zip(*columns, strict=True):
            number += 1
            yield number, values


def read_entries(path: Path, choose: Callable[[Sequence[str]], Sequence[str | None]]) -> Iterator[Entries]:
    """The rows of a run that has nothing unusual, in columns: ids are text, scores and ranks finite numbers.

    Args:
        path: a Parquet or Arrow file.
        choose: as in :func:`read_columns`; the columns are query id, document id, score and rank.

    Raises:
        ValueError: if there is anything else in the file, which may still be a run.
        Exception: pyarrow's own, of files that are damaged.
    """
    with ExitStack() as stack:
        names, batches = _open(path, stack, _MANY)
        query_id, doc_id, score, rank = choose(names)
        if query_id is None or doc_id is None or score is None:
            raise ValueError("a column is missing")
        for batch in batches(
            [name for name in (query_id, doc_id, score, rank) if name is not None], [query_id, doc_id]
        ):
            batch.validate(full=True)
            yield _entries(
                batch.column(query_id),
                batch.column(doc_id),
                None if rank is None else batch.column(rank),
                batch.column(score),
            )


def read_trec(block: bytes) -> Iterator[Entries]:
    """Whole lines of ``query_id Q0 doc_id rank score tag``, in UTF-8 with one blank between, as the entries of a run.

    Raises:
        ValueError: if a line has another number of fields, a rank is no whole number of 64 bits or a score no finite
            number.
    """
    import pyarrow as pa
    from pyarrow import csv

    name = pa.dictionary(pa.int32(), pa.string())
    kinds = {"query_id": name, "doc_id": name, "rank": pa.int64(), "score": pa.float64()}
    columns = ["query_id", "Q0", "doc_id", "rank", "score", "tag"]
    table = csv.read_csv(
        pa.BufferReader(block),
        csv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=columns),
        csv.ParseOptions(delimiter=" ", quote_char=False, escape_char=False),
        csv.ConvertOptions(column_types=kinds, include_columns=list(kinds), null_values=[]),
    )
    for batch in table.to_batches():
        yield _entries(*map(batch.column, kinds))


def _entries(query_ids: Any, doc_ids: Any, ranks: Any, scores: Any) -> Entries:
    """Columns of Arrow as those of a run."""
    columns = [each for each in (query_ids, doc_ids, ranks, scores) if each is not None]
    if any(column.null_count for column in columns):
        raise ValueError("a value is missing")
    numbers = np.from_dlpack(scores)  # Arrow's own way loads all of pandas
    places = np.zeros(len(numbers), dtype=np.int64) if ranks is None else np.from_dlpack(ranks)
    if numbers.dtype.kind not in "fi" or places.dtype.kind != "i":
        raise ValueError("no number")
    scores = numbers.astype(np.float64)
    if not np.isfinite(scores).all():
        raise ValueError("a score that is not finite")
    return Entries(_named(query_ids), _named(doc_ids), places.astype(np.int64), scores)


def _named(ids: Any) -> Named:
    encoded = ids if hasattr(ids, "dictionary") else ids.dictionary_encode()
    names: list[Any] = encoded.dictionary.to_pylist()
    if not all(type(name) is str for name in names):
        raise ValueError("an id that is no text")
    positions: IntArray = np.from_dlpack(encoded.indices).astype(np.intp)
    return Named(names, positions)


def _batches(path: Path, choose: Callable[[Sequence[str]], Sequence[str | None]]) -> Iterator[list[list[Any]]]:
    """The values of the chosen columns, a list each, for some rows at a time."""
    with ExitStack() as stack:
        names, batches = _open(path, stack, _ROWS)
        chosen = choose(names)
        for batch in batches([name for name in chosen if name is not None], ()):
            batch.validate(full=True)  # in a damaged Arrow file, offsets may point anywhere in memory
            for start in range(0, batch.num_rows, _ROWS):
                rows = batch.slice(start, _ROWS)
                values = {name: rows.column(name).to_pylist() for name in chosen if name is not None}
                yield [[None] * rows.num_rows if name is None else values[name] for name in chosen]


_Batches = Callable[[Sequence[str], Sequence[str]], Iterator[Any]]
"""Reads some columns, those that hold ids as dictionaries where that takes less than reading each value."""


def _open(path: Path, stack: ExitStack, rows: int) -> tuple[list[str], _Batches]:
    """The names of the columns, and what reads batches of some of them; those of a Parquet file have so many rows."""
    if _kind(path) == "Parquet":
        import pyarrow.parquet as pq

        def read(columns: Sequence[str], ids: Sequence[str]) -> Iterator[Any]:
            # pq.read_table loads the code for folders of files, a third of a second.
            again = stack.enter_context(pq.ParquetFile(path, pre_buffer=False, read_dictionary=ids))
            batches: Iterator[Any] = again.iter_batches(rows, columns=columns)
            return batches

        return stack.enter_context(pq.ParquetFile(path, pre_buffer=False)).schema_arrow.names, read
    import pyarrow as pa

    source = stack.enter_context(pa.OSFile(str(path)))
    if _begins_with(path, ARROW[0]):
        reader = stack.enter_context(pa.ipc.open_file(source))
        return reader.schema.names, lambda *_: (reader.get_batch(i) for i in range(reader.num_record_batches))
    stream = stack.enter_context(pa.ipc.open_stream(source))
    return stream.schema.names, lambda *_: iter(stream)


def _kind(path: Path) -> str:
    return "Parquet" if path.suffix == ".parquet" or _begins_with(path, PARQUET) else "Arrow"


def _begins_with(path: Path, magic: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(magic)) == magic
