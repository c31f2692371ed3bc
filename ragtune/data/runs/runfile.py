"""Files of ranked documents: TREC and MS MARCO runs, frames of PyTerrier, responses of a search engine."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

from ragtune.core.errors import DatasetError
from ragtune.core.plain import quoted
from ragtune.data.caches.diskcache import DiskCache
from ragtune.data.files.filedigest import Stamp, file_digests, stamp_of
from ragtune.data.files.records import record_files, text_form
from ragtune.data.runs.run import Run, RunBuilder
from ragtune.data.runs.runentries import TREC, Found, entries_of, said
from ragtune.data.runs.searchfile import holds_responses

_WORTH_KEEPING = 2**19
"""Bytes of a run from which on its columns are kept in the cache folder."""


def read_run(path: str | Path, queries: Sequence[str] = (), *, needs_scores: bool = False) -> Run:
    """Read the entries of each query, best first: by score, then by the file's rank, then by document id.

    The content decides the form:

    - lines of ``query_id Q0 doc_id rank score tag`` (TREC; Anserini, Pyserini, PyTerrier);
    - lines of ``query_id doc_id rank`` (MS MARCO), which have no score; it becomes 1 / rank;
    - a table with columns for query id, document id, score and perhaps rank, in any form of
      :mod:`ragtune.data.files.records` (PyTerrier's result frames);
    - responses of Elasticsearch or OpenSearch, see :mod:`ragtune.data.runs.searchfile`.

    Args:
        path: text, gzipped or not, Parquet, or a folder.
        queries: ids of the queries in the order of their responses, for a file of ``_msearch`` that names none.
        needs_scores: refuse a file that has ranks only.

    Raises:
        DatasetError: if the file is missing, or holds something else (file and line), or a document comes twice for a
            query.
    """
    path = Path(path)
    if not path.exists():
        raise DatasetError(f"run file {str(path)!r} does not exist")
    version = version_of(path)
    return _read_version(path, version, tuple(queries) if _needs_order(path, version) else (), needs_scores)


def version_of(path: Path) -> tuple[Stamp, ...]:
    """Return what identifies the present content of a file, or of the files of a folder.

    Raises:
        DatasetError: if the folder is of no known kind.
    """
    return tuple(stamp_of(file) for file in record_files(path))


def source_name(path: Path) -> str:
    """Return the name of a run as a source: its file's name without ``.gz`` and the suffix."""
    return Path(path.name.removesuffix(".gz")).stem


@lru_cache(maxsize=16)
def _needs_order(path: Path, version: tuple[Stamp, ...]) -> bool:
    """Whether the order of the queries may matter: a file of responses may name none."""
    first = record_files(path)[0]
    return text_form(first, is_spaced=True) == "json" and holds_responses(first)


@lru_cache(maxsize=16)
def _read_version(path: Path, version: tuple[Stamp, ...], order: tuple[str, ...], needs_scores: bool) -> Run:
    """The run. A process reads a version of a file once; processes share the columns of a large one."""

    def read() -> Run:
        return _read(path, order, needs_scores)

    if sum(size for _, _, size, _, _ in version) < _WORTH_KEEPING:
        return read()
    key = json.dumps(["run 4", order, needs_scores, *file_digests(record_files(path))])
    return DiskCache("runs").written(key, lambda folder: read().save(folder), Run.load) or read()


def _read(path: Path, order: tuple[str, ...], needs_scores: bool) -> Run:
    builder = RunBuilder()
    for where, query_id, doc_id, rank, score in entries_of(path, order, needs_scores):
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
        _refuse_twice(entries_of(path, order, needs_scores))
    # The ranks beside recorded scores may be those of any order, as only their scores are read.
    if not needs_scores and (reverse := _rising(run)) is not None:
        _refuse_rising(reverse, entries_of(path, order, needs_scores))
    return run


def _refuse_twice(found: Iterator[Found]) -> None:
    """Name the first entry whose document has an earlier entry for the same query."""
    known: set[tuple[str, str]] = set()
    for where, query_id, doc_id, _, _ in found:
        if (query_id, doc_id) in known:
            raise DatasetError(f"{said(where)}: document {quoted(doc_id)} comes twice for query {quoted(query_id)}")
        known.add((query_id, doc_id))


def _rising(run: Run) -> str | None:
    """The first query whose scores rise with its ranks; None if they fall in any query of three documents or more.

    Ranks only break ties. Those of an earlier stage may be in any order, in a query by chance the reverse. Where they
    are the reverse in all queries, the columns are swapped or the scores are distances.
    """
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


def _refuse_rising(reverse: str, found: Iterator[Found]) -> NoReturn:
    where = next(where for where, query_id, *_ in found if query_id == reverse)
    raise DatasetError(
        f"{said(where)}: the scores of query {quoted(reverse)} rise with its ranks, and fall in no query of 3 "
        "documents or more: are the columns swapped, or the scores distances? Allowed are scores of which the "
        "highest is best: write distances negated"
    )
