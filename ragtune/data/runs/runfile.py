"""Files of ranked documents: TREC and MS MARCO runs, and tables such as the frames of PyTerrier."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

from ragtune.core.errors import DatasetError
from ragtune.core.plain import quoted
from ragtune.data.caches.diskcache import DiskCache, Stamp, sha256_of, stamp_of
from ragtune.data.files.records import DOC_ID, QUERY_ID, Schema, read_records, record_files, text_form
from ragtune.data.files.textfile import id_of, number_of, read_lines, require_id
from ragtune.data.runs.run import Run, RunBuilder

_WORTH_KEEPING = 2**19
"""Bytes of a run from which on its columns are kept in the cache folder."""


def read_run(path: str | Path, *, needs_scores: bool = False) -> Run:
    """Read the entries of each query, best first: by score, then by the file's rank, then by document id.

    The content decides the form:

    - lines of ``query_id Q0 doc_id rank score tag`` (TREC; Anserini, Pyserini, PyTerrier);
    - lines of ``query_id doc_id rank`` (MS MARCO), which have no score; it becomes 1 / rank;
    - a table with columns for query id, document id, score and perhaps rank, in any form of
      :mod:`ragtune.data.files.records` (PyTerrier's result frames).

    Args:
        path: text, gzipped or not, Parquet, or a folder.
        needs_scores: refuse a file that has ranks only.

    Raises:
        DatasetError: if the file is missing, or holds something else (file and line), or a document comes twice for a
            query.

    Examples:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from ragtune.data.runs.runfile import read_run
        >>> with TemporaryDirectory() as folder:
        ...     file = Path(folder) / "bm25.run"
        ...     _ = file.write_text("q1 Q0 d2 1 7.5 bm25\\nq1 Q0 d1 2 7.0 bm25\\n")
        ...     [(entry.doc_id, entry.score) for entry in read_run(file)["q1"]]
        [('d2', 7.5), ('d1', 7.0)]
    """
    path = Path(path)
    if not path.exists():
        raise DatasetError(f"run file {str(path)!r} does not exist")
    return _read_version(path, version_of(path), needs_scores)


def version_of(path: Path) -> tuple[Stamp, ...]:
    """Return what identifies the present content of a file, or of the files of a folder."""
    return tuple(stamp_of(file) for file in record_files(path))


def source_name(path: Path) -> str:
    """Return the name of a run as a source: its file's name without ``.gz`` and the suffix."""
    return Path(path.name.removesuffix(".gz")).stem


@lru_cache(maxsize=16)
def _read_version(path: Path, version: tuple[Stamp, ...], needs_scores: bool) -> Run:
    """The run. A process reads a version of a file once; processes share the columns of a large one."""

    def read() -> Run:
        return _read(path, needs_scores)

    if sum(size for _, _, size, _, _ in version) < _WORTH_KEEPING:
        return read()
    key = json.dumps(["run 6", needs_scores, *map(sha256_of, record_files(path))])
    return DiskCache("runs").written(key, lambda folder: read().save(folder), Run.load) or read()


def _read(path: Path, needs_scores: bool) -> Run:
    builder = RunBuilder()
    for where, query_id, doc_id, rank, score in entries_of(path, needs_scores):
        if not math.isfinite(score):
            pair = f"({quoted(query_id)}, {quoted(doc_id)})"
            raise DatasetError(f"{said(where)}: score {score} of {pair}: allowed is a finite number")
        try:
            builder.add(query_id, doc_id, rank, score)
        except OverflowError:
            raise DatasetError(f"{said(where)}: rank {quoted(rank)}: allowed is a whole number of 64 bits") from None
    run = builder.built()
    if not run:
        raise DatasetError(f"{path}: no entries: a run needs lines of {TREC}")
    if run.names_twice():
        _refuse_twice(entries_of(path, needs_scores))
    # The ranks beside recorded scores may be those of any order, as only their scores are read.
    if not needs_scores and (reverse := _rising(run)) is not None:
        where = next(where for where, query_id, *_ in entries_of(path, needs_scores) if query_id == reverse)
        raise DatasetError(
            f"{said(where)}: the scores of query {quoted(reverse)} rise with its ranks, and fall in no query of 3 "
            "documents or more: are the columns swapped, or the scores distances? Allowed are scores of which the "
            "highest is best: write distances negated"
        )
    return run


def _refuse_twice(found: Iterator[Found]) -> None:
    """Name the first entry whose document has an earlier entry for the same query."""
    known: set[tuple[str, str]] = set()
    for where, query_id, doc_id, _, _ in found:
        if (query_id, doc_id) in known:
            raise DatasetError(f"{said(where)}: document {quoted(doc_id)} comes twice for query {quoted(query_id)}")
        known.add((query_id, doc_id))


def _rising(run: Run) -> str | None:
    """The first query whose scores rise with its ranks; None if they fall in any query of three documents or more."""
    reverse = None
    for query_id in run:
        pairs = list(pairwise(run.by_rank(query_id)))
        if len(pairs) < 2:
            continue
        if any(a.rank == b.rank or a.score > b.score for a, b in pairs):
            return None  # as in every sound run, at its first query
        if reverse is None and all(a.score < b.score for a, b in pairs):
            reverse = query_id
    return reverse


Place = tuple[Path, int] | str
"""File and line, or the place in words."""

Found = tuple[Place, str, str, int, float]
"""Where an entry stands, its query, its document, its rank and its score."""

TREC = "'query_id Q0 doc_id rank score tag'"
MSMARCO = "'query_id doc_id rank'"
"""The lines of the two kinds of runs, for messages."""

_NAMES = {"query_id": QUERY_ID, "doc_id": DOC_ID, "score": ("score",), "rank": ("rank",)}
SCORED = Schema(_NAMES, frozenset({"query_id", "doc_id", "score"}))
"""The columns of a table of scored documents."""


def said(place: Place) -> str:
    """A place in words."""
    return place if isinstance(place, str) else f"{place[0]}:{place[1]}"


def entries_of(path: Path, needs_scores: bool) -> Iterator[Found]:
    """Yield the entries of a run in the order of its file or folder."""
    files = record_files(path)
    form = text_form(files[0], is_spaced=True)
    if form in ("arrow", "json", "csv") or (form != "empty" and _is_header(line := next(read_lines(files[0]))[1])):
        yield from _table_entries(path)
    elif form != "empty" and len(line.split()) != 3:
        for file in files:
            yield from _trec_entries(file)
    elif needs_scores and form != "empty":
        raise DatasetError(f"{path}: lines of {MSMARCO} hold no scores: allowed are lines of {TREC}")
    elif form != "empty":
        yield from _ranked(entry for file in files for entry in _msmarco_entries(file))


def _is_header(line: str) -> bool:
    return not SCORED.lacks(SCORED.choose(line.split("\t" if "\t" in line else None)))


def _table_entries(path: Path) -> Iterator[Found]:
    last = None
    for where, (query, document, score, place) in read_records(path, SCORED):
        query_id, doc_id = id_of(query, where, "query_id"), id_of(document, where, "doc_id")
        if query_id != last:  # rows of a query follow each other
            last = require_id(query_id, f"{where}: 'query_id' is")
        require_id(doc_id, f"{where}: 'doc_id' is")
        rank = 0 if place is None else int(number_of(place, where, "rank"))
        yield where, query_id, doc_id, rank, number_of(score, where, "score")


def _trec_entries(file: Path) -> Iterator[Found]:
    for number, line in read_lines(file):
        try:
            query_id, _, doc_id, rank, score, _ = line.split()
            yield (file, number), query_id, doc_id, int(rank), float(score)
        except ValueError:
            _refuse_line(file, number, line, TREC)


def _msmarco_entries(file: Path) -> Iterator[Found]:
    for number, line in read_lines(file):
        try:
            query_id, doc_id, place = line.split()
            if (rank := int(place)) < 1:
                raise ValueError(place)
        except ValueError:
            _refuse_line(file, number, line, MSMARCO)
        yield (file, number), query_id, doc_id, rank, 1.0 / rank


def _refuse_line(file: Path, number: int, line: str, expected: str) -> NoReturn:
    raise DatasetError(f"{file}:{number}: malformed line {quoted(line.strip())}: expected {expected}") from None


def _ranked(found: Iterator[Found]) -> Iterator[Found]:
    """The same entries; refused where the third column is something else than ranks, e.g. scores or grades."""
    ranks: dict[str, set[int]] = {}
    begun: dict[str, Place] = {}
    for entry in found:
        where, query_id, _, rank, _ = entry
        numbers = ranks.setdefault(query_id, set())
        begun.setdefault(query_id, where)
        if rank in numbers:
            _refuse_ranks(where, query_id, f"{rank} comes twice")
        numbers.add(rank)
        yield entry
    for query_id, numbers in ranks.items():
        if max(numbers) != len(numbers):
            _refuse_ranks(begun[query_id], query_id, f"the largest of {len(numbers)} is {max(numbers)}")


def _refuse_ranks(where: Place, query_id: str, what: str) -> NoReturn:
    raise DatasetError(
        f"{said(where)}: the third column of {MSMARCO}, for query {quoted(query_id)}: {what}: allowed are ranks, each "
        f"of 1 to the number of its documents once; scores need lines of {TREC}, or a CSV or TSV with a header"
    )
