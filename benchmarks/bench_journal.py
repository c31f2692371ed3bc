"""The journal's lines against Arrow record batches: what it costs to keep a query, and what damage goes unnoticed.

    python benchmarks/bench_journal.py [--queries 2000] [--repeats 5] [--json FILE]

Records are those of greedy batches over generated queries with 100 candidates. Both forms are appended without a
buffer, 64 queries at a time, as policies whose order no score changes finish them, and one at a time, as all others do.
Arrow's batches have a column for each field and one write each; a file of them is read with `validate(full=True)`.
Microseconds are CPU time a query, medians; every record read back equals the one that was written.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from bench_queries import POLICIES, generate, options
from machine import report

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.config.compose import compose
from experiments.evaluate.rankings import packed, unpacked
from experiments.evaluate.record import QueryRecord
from experiments.replay.build import build_session
from experiments.replay.journal import Journal
from experiments.replay.records import records_of

IDENTITY = {"fingerprint": "f", "settings": "s", "inputs": {}}
FLIPS = 200

COSTS = pa.list_(pa.list_(pa.float64()))
SCHEMA = pa.schema(
    {
        **dict.fromkeys(("query_id", "ids"), pa.string()),
        **dict.fromkeys(("rankings", "stop", "account", "dropped", "batches"), pa.string()),
        "costs": COSTS,
        "actual": pa.list_(pa.float64()),
        **dict.fromkeys(("context_docs", "context_tokens"), pa.int64()),
        "trace": pa.large_string(),
    }
)
AS_JSON = ("stop", "account", "dropped", "batches")


def made(queries: int, folder: Path) -> list[QueryRecord]:
    """The records of so many queries."""
    generate(folder, queries)
    session = build_session(compose([*options(folder), *POLICIES["greedy 10 x 10"]]))
    return list(records_of(session, session.dataset.queries))


def write_lines(folder: Path, records: Sequence[QueryRecord], size: int) -> Path:
    journal = Journal(folder, IDENTITY, resume=False)
    for start in range(0, len(records), size):
        journal.append(*records[start : start + size])
    journal._file.close()
    return journal.path


def read_lines(file: Path) -> list[QueryRecord]:
    journal = Journal(file.parent, IDENTITY, resume=True)
    journal._file.close()
    return [journal.finished[query_id] for query_id in journal.finished]


def write_arrow(folder: Path, records: Sequence[QueryRecord], size: int) -> Path:
    file = folder / "journal.arrows"
    with file.open("wb", buffering=0) as out:
        out.write(SCHEMA.serialize())
        for start in range(0, len(records), size):
            rows = [row_of(record) for record in records[start : start + size]]
            columns = {name: [row[name] for row in rows] for name in SCHEMA.names}
            out.write(pa.record_batch(columns, schema=SCHEMA).serialize())
    return file


def read_arrow(file: Path) -> list[QueryRecord]:
    return list(arrow_records(file))


def arrow_records(file: Path) -> Iterator[QueryRecord]:
    with pa.OSFile(str(file)) as source:
        try:
            for batch in pa.ipc.open_stream(source):
                batch.validate(full=True)
                yield from map(record_of, batch.to_pylist())
        except (pa.ArrowInvalid, OSError, KeyError, TypeError, ValueError):
            return


def row_of(record: QueryRecord) -> dict[str, Any]:
    row = {name: getattr(record, name) for name in SCHEMA.names if name not in ("ids", "rankings", *AS_JSON)}
    row |= {name: json.dumps(getattr(record, name)) for name in AS_JSON}
    return {
        **row,
        "ids": " ".join(record.doc_ids),
        "rankings": json.dumps(packed(record.rankings, len(record.doc_ids))),
    }


def record_of(row: dict[str, Any]) -> QueryRecord:
    doc_ids = row.pop("ids").split(" ")
    row |= {name: json.loads(row[name]) for name in AS_JSON}
    return QueryRecord(**{**row, "doc_ids": doc_ids, "rankings": unpacked(json.loads(row["rankings"]), len(doc_ids))})


FORMS: dict[str, tuple[Callable[..., Path], Callable[[Path], list[QueryRecord]]]] = {
    "lines": (write_lines, read_lines),
    "arrow": (write_arrow, read_arrow),
}


def measured(form: str, records: Sequence[QueryRecord], size: int, repeats: int) -> dict[str, float]:
    """CPU microseconds a query of writing and reading, and bytes."""
    write, read = FORMS[form]
    times: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(repeats):
            started = time.process_time()
            file = write(Path(folder), records, size)
            written = time.process_time()
            found = read(file)
            times.append((written - started, time.process_time() - written))
            assert found == list(records)
        bytes_each = file.stat().st_size / len(records)
    write_us, read_us = (
        round(1e6 * statistics.median(column) / len(records), 1) for column in zip(*times, strict=True)
    )
    return {"write_us": write_us, "read_us": read_us, "bytes": round(bytes_each)}


def unnoticed(form: str, records: Sequence[QueryRecord], size: int) -> int:
    """Of :data:`FLIPS` flipped bytes, those after which records are read that nobody has written."""
    write, read = FORMS[form]
    rng, wrong = random.Random(0), 0
    with tempfile.TemporaryDirectory() as folder:
        whole = write(Path(folder), records, size).read_bytes()
        begin = whole.index(b"\n") + 1 if form == "lines" else SCHEMA.serialize().size
        for place in (rng.randrange(begin, len(whole)) for _ in range(FLIPS)):
            file = write(Path(folder), records[:1], 1)
            file.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << rng.randrange(8)]) + whole[place + 1 :])
            found = read(file)
            wrong += found != list(records[: len(found)])
    return wrong


def main() -> int:
    """Measure both forms, and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        records = made(arguments.queries, Path(folder) / "collection")
        figures = {
            f"{form}, {size} at a time": {
                **measured(form, records, size, arguments.repeats),
                "unnoticed flips": unnoticed(form, records[:64], size),
            }
            for size in (64, 1)
            for form in FORMS
        }
    for name, found in figures.items():
        print(f"{name}: {found}")
    report(figures, arguments.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
