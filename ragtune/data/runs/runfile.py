"""Files of ranked documents: TREC and MS MARCO runs, frames of PyTerrier, responses of a search engine."""

from __future__ import annotations

import json
import logging
import math
import tempfile
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import NoReturn

import numpy as np

from ragtune.core.errors import DatasetError
from ragtune.core.plain import quoted
from ragtune.data.caches.diskcache import DiskCache
from ragtune.data.files.arrowfile import read_entries
from ragtune.data.files.filedigest import Stamp, file_digests, stamp_of
from ragtune.data.files.records import record_files, text_form
from ragtune.data.files.values import require_id
from ragtune.data.runs.run import Entries, Named, Run, RunBuilder, RunEntry
from ragtune.data.runs.runentries import SCORED, TREC, Found, entries_of
from ragtune.data.runs.searchfile import holds_responses
from ragtune.data.runs.trecfile import read_plain_trec
from ragtune.data.stored.rows import NoPlaceError

_log = logging.getLogger(__name__)


def read_run(path: str | Path, queries: Sequence[str] = (), *, needs_scores: bool = False) -> Run:
    """The entries of each query, best first: by score, then by the file's rank, then by document id.

    The form is told by the content:

    - lines of ``query_id Q0 doc_id rank score tag`` (TREC; Anserini, Pyserini, PyTerrier);
    - lines of ``query_id doc_id rank`` (MS MARCO), whose score is 1 / rank, as there is none;
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
    """What identifies the present content of a file, or of the files of a folder.

    Raises:
        DatasetError: if the folder is of no known kind.
    """
    return tuple(stamp_of(file) for file in record_files(path))


def source_name(path: Path) -> str:
    """What a run is called as a source: its file's name without the suffix, and without ``.gz`` behind that."""
    return Path(path.name.removesuffix(".gz")).stem


@lru_cache(maxsize=16)
def _needs_order(path: Path, version: tuple[Stamp, ...]) -> bool:
    """Whether a file may name no queries; of any other, the order of queries is no part of what it says."""
    first = record_files(path)[0]
    return text_form(first, is_spaced=True) == "json" and holds_responses(first)


@lru_cache(maxsize=16)
def _read_version(path: Path, version: tuple[Stamp, ...], order: tuple[str, ...], needs_scores: bool) -> Run:
    """The run, read once per process and version of the file: a sweep asks for it again and again.

    The columns of a large file are kept in the cache folder, where other processes find and share them.
    """
    if sum(size for _, _, size, _, _ in version) < _WORTH_KEEPING:
        return _read(path, order, needs_scores, None)
    folder = Path(tempfile.gettempdir())
    key = json.dumps(["run 3", order, needs_scores, *file_digests(record_files(path))])
    return DiskCache("runs").fetch(
        key, lambda: _read(path, order, needs_scores, folder), Run.save, Run.load, is_mapped=True
    )


_WORTH_KEEPING = 2**19
"""Bytes: a smaller file is read nearly as fast as its columns are found; one of 0.7 MB takes three times as long."""


def _read(path: Path, order: tuple[str, ...], needs_scores: bool, folder: Path | None) -> Run:
    try:
        run = _plain_run(path, folder)
    except NoPlaceError as error:
        _log.warning("no room for the columns of %s (%s): holding them in memory", path, error)
        return _read(path, order, needs_scores, None)
    except Exception:  # pyarrow's own, of damaged files also others: reading on tells what is wrong, and where
        run = _any_run(entries_of(path, order, needs_scores), folder)
    if not run:
        raise DatasetError(f"{path}: no entries: a run needs lines of {TREC}")
    if run.names_twice():
        _refuse_twice(entries_of(path, order, needs_scores))
    # The ranks beside recorded scores may be those of any order, as only their scores are read.
    if not needs_scores and (reverse := _rising(run)) is not None:
        _refuse_rising(reverse, entries_of(path, order, needs_scores))
    return run


def _plain_run(path: Path, folder: Path | None) -> Run:
    """Many lines or rows at a time.

    Raises:
        Exception: of many kinds, if something is wrong, or only unusual.
    """
    builder = RunBuilder(folder)
    for file in record_files(path):
        for entries in _plain_table(file) if text_form(file) == "arrow" else read_plain_trec(file):
            builder.extend(entries)
    return builder.built()


def _plain_table(file: Path) -> Iterator[Entries]:
    for entries in read_entries(file, SCORED.choose):
        for ids in entries[:2]:
            for name in ids.names:
                require_id(name, "id")
        yield entries


def _any_run(found: Iterator[Found], folder: Path | None) -> Run:
    """Entry by entry, so that what is wrong is told with its place."""
    builder = RunBuilder(folder)
    for query_id, group in groupby(found, key=itemgetter(1)):
        doc_ids, ranks, scores = zip(*(_allowed(*each) for each in group), strict=True)
        every = np.arange(len(doc_ids))
        numbers = np.array(ranks, dtype=np.int64), np.array(scores, dtype=float)
        builder.extend(Entries(Named([query_id], np.zeros_like(every)), Named(doc_ids, every), *numbers))
    return builder.built()


def _allowed(where: str, query_id: str, entry: RunEntry) -> RunEntry:
    if not math.isfinite(entry.score):
        pair = f"({quoted(query_id)}, {quoted(entry.doc_id)})"
        raise DatasetError(f"{where}: score {entry.score} of {pair}: allowed is a finite number")
    if not -(2**63) <= entry.rank < 2**63:
        raise DatasetError(f"{where}: rank {quoted(entry.rank)}: allowed is a whole number of 64 bits")
    return entry


def _refuse_twice(found: Iterator[Found]) -> None:
    """Name the first entry of a document that its query has already."""
    known: set[tuple[str, str]] = set()
    for where, query_id, entry in found:
        if (query_id, entry.doc_id) in known:
            raise DatasetError(f"{where}: document {quoted(entry.doc_id)} comes twice for query {quoted(query_id)}")
        known.add((query_id, entry.doc_id))


def _rising(run: Run) -> str | None:
    """The first query whose scores rise with its ranks; None if they fall in any query of three documents or more.

    Ranks only break ties, and those that an earlier stage left may be in any order, by chance the reverse in a query;
    where it is so in all of them, the columns are swapped or the scores are distances.
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
    where = next(where for where, query_id, _ in found if query_id == reverse)
    raise DatasetError(
        f"{where}: the scores of query {quoted(reverse)} rise with its ranks, and fall in no query of 3 "
        "documents or more: are the columns swapped, or the scores distances? Allowed are scores of which the "
        "highest is best: write distances negated"
    )
