"""TREC run files: ``query_id Q0 doc_id rank score tag`` per line."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from ragtune.core.errors import DatasetError
from ragtune.core.plain import quoted
from ragtune.data.filedigest import Stamp, stamp_of
from ragtune.data.textfile import read_lines


class RunEntry(NamedTuple):
    """One retrieved document of one query."""

    doc_id: str
    rank: int
    score: float


Run = Mapping[str, Sequence[RunEntry]]
"""Entries by query, best first."""


def read_trec_run(path: str | Path) -> Run:
    """The entries of each query, best first: by score, then by the file's rank, then by document id.

    Args:
        path: UTF-8 text, plain or gzipped.

    Raises:
        DatasetError: if the file is missing, or a line is malformed (file and line number), or a document comes
            twice for a query.
    """
    path = Path(path)
    if not path.is_file():
        raise DatasetError(f"run file {str(path)!r} does not exist")
    return _read_version(path, stamp_of(path))


def source_name(path: Path) -> str:
    """What a run is called as a source: its file's name without the suffix, and without ``.gz`` behind that."""
    return Path(path.name.removesuffix(".gz")).stem


@lru_cache(maxsize=16)
def _read_version(path: Path, stamp: Stamp) -> Run:
    """The run, read once per process and version of the file: a sweep asks for it again and again."""
    queries: dict[str, dict[str, RunEntry]] = {}
    for number, line in read_lines(path):
        query_id, entry = _parse(line, path, number)
        entries = queries.setdefault(query_id, {})
        if entry.doc_id in entries:
            raise DatasetError(
                f"{path}:{number}: document {quoted(entry.doc_id)} comes twice for query {quoted(query_id)}"
            )
        entries[entry.doc_id] = entry
    if not queries:
        raise DatasetError(f"{path}: no entries: a run needs lines of 'query_id Q0 doc_id rank score tag'")
    return {
        query_id: sorted(entries.values(), key=lambda e: (-e.score, e.rank, e.doc_id))
        for query_id, entries in queries.items()
    }


def _parse(line: str, path: Path, number: int) -> tuple[str, RunEntry]:
    fields = line.split()
    try:
        query_id, _, doc_id, rank, score, _ = fields
        entry = RunEntry(doc_id, int(rank), float(score))
    except ValueError:
        raise DatasetError(
            f"{path}:{number}: malformed line {quoted(line.strip())}: expected 'query_id Q0 doc_id rank score tag'"
        ) from None
    if not math.isfinite(entry.score):
        pair = f"({quoted(query_id)}, {quoted(doc_id)})"
        raise DatasetError(f"{path}:{number}: score {quoted(score)[1:-1]} of {pair}: allowed is a finite number")
    return query_id, entry
