"""Files that Apache Arrow reads, some rows at a time: Parquet and Arrow's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ragtune.core.errors import DatasetError
from ragtune.core.plain import quoted

PARQUET = b"PAR1"
ARROW = (b"ARROW1", b"\xff\xff\xff\xff")
"""How the files begin: Arrow's with an index at the end, and its streams, which Hugging Face's ``datasets`` writes."""

_ROWS = 1024


def read_columns(
    path: Path, choose: Callable[[Sequence[str]], Sequence[str | None]]
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Yield number (from 1) and values of every row. Memory holds one batch of rows.

    Args:
        path: a Parquet or Arrow file.
        choose: returns the names of the wanted columns, given those of all; None for a missing column, whose values
            are None.

    Raises:
        DatasetError: naming the file, if it cannot be read.
    """
    number = 0
    rows = _rows(path, choose)
    while True:
        try:
            values = next(rows, None)
        except DatasetError:
            raise
        except Exception as error:  # pyarrow's own, OSError, ValueError, of damaged files also others
            reason = quoted(" ".join(str(error).split()))[1:-1]
            place = f" after row {number}" if number else ""
            raise DatasetError(f"{path}: cannot be read as {_kind(path)}{place}: {reason}") from None
        if values is None:
            return
        number += 1
        yield number, values


def _rows(path: Path, choose: Callable[[Sequence[str]], Sequence[str | None]]) -> Iterator[tuple[Any, ...]]:
    with ExitStack() as stack:
        names, batches = _open(path, stack)
        chosen = choose(names)
        for batch in batches([name for name in chosen if name is not None]):
            batch.validate(full=True)  # in a damaged Arrow file, offsets may point anywhere in memory
            for start in range(0, batch.num_rows, _ROWS):
                rows = batch.slice(start, _ROWS)
                columns = [[None] * len(rows) if name is None else rows.column(name).to_pylist() for name in chosen]
                yield from zip(*columns, strict=True)


def _open(path: Path, stack: ExitStack) -> tuple[list[str], Callable[[Sequence[str]], Iterator[Any]]]:
    """The names of the columns, and a function that reads batches with at least the given columns."""
    if _kind(path) == "Parquet":
        import pyarrow.parquet as pq

        # pq.read_table loads the code for folders of files, which takes a third of a second.
        file = stack.enter_context(pq.ParquetFile(path, pre_buffer=False))
        return file.schema_arrow.names, lambda columns: file.iter_batches(_ROWS, columns=columns)
    import pyarrow as pa

    source = stack.enter_context(pa.OSFile(str(path)))
    if _begins_with(path, ARROW[0]):
        reader = stack.enter_context(pa.ipc.open_file(source))
        return reader.schema.names, lambda _: map(reader.get_batch, range(reader.num_record_batches))
    stream = stack.enter_context(pa.ipc.open_stream(source))
    return stream.schema.names, lambda _: iter(stream)


def _kind(path: Path) -> str:
    return "Parquet" if path.suffix == ".parquet" or _begins_with(path, PARQUET) else "Arrow"


def _begins_with(path: Path, magic: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(magic)) == magic
