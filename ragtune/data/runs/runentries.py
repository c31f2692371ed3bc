"""Entries of files of ranked documents, one by one, each with its place."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import NoReturn

from ragtune.core.errors import DatasetError
from ragtune.core.plain import quoted
from ragtune.data.files.records import DOC_ID, QUERY_ID, Schema, read_records, record_files, text_form
from ragtune.data.files.textfile import read_lines
from ragtune.data.files.values import id_of, number_of, require_id
from ragtune.data.runs.searchfile import holds_responses, read_responses

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


def entries_of(path: Path, order: Sequence[str], needs_scores: bool) -> Iterator[Found]:
    """Yield the entries of a run in the order of its file or folder.

    The arguments are those of :func:`ragtune.data.runs.runfile.read_run`.

    Raises:
        DatasetError: naming file and line of what is no entry.
    """
    files = record_files(path)
    form = text_form(files[0], is_spaced=True)
    if form == "json" and holds_responses(files[0]):
        yield from _response_entries(files, order)
    elif form in ("arrow", "json", "csv") or (form != "empty" and _is_header(line := next(read_lines(files[0]))[1])):
        yield from _table_entries(path)
    elif form != "empty" and len(line.split()) != 3:
        for file in files:
            yield from _trec_entries(file)
    elif needs_scores and form != "empty":
        raise DatasetError(f"{path}: lines of {MSMARCO} hold no scores: allowed are lines of {TREC}")
    elif form != "empty":
        yield from _ranked(entry for file in files for entry in _msmarco_entries(file))


def _response_entries(files: Sequence[Path], order: Sequence[str]) -> Iterator[Found]:
    answered: set[str] = set()
    for file in files:
        for where, query_id, hits in read_responses(file, order):
            if query_id in answered:
                raise DatasetError(f"{where}: a second response for query {quoted(query_id)}: allowed is one")
            answered.add(query_id)
            for rank, (doc_id, score) in enumerate(hits, start=1):
                yield where, query_id, doc_id, rank, score


def _is_header(line: str) -> bool:
    return not SCORED.lacks(SCORED.choose(line.split("\t" if "\t" in line else None)))


def _table_entries(path: Path) -> Iterator[Found]:
    last = None
    for where, (query, document, score, place) in read_records(path, SCORED):
        query_id, doc_id = id_of(query, where, "query_id"), id_of(document, where, "doc_id")
        if query_id != last:  # rows of a query follow each other
            last = require_id(query_id, f"{where}: 'query_id' is")
        require_id(doc_id, f"{where}: 'doc_id' is")
        rank = 0 if place is None else number_of(place, where, "rank")
        if not math.isfinite(rank):
            raise DatasetError(f"{where}: 'rank' is {quoted(place)}: allowed is a whole number")
        yield where, query_id, doc_id, int(rank), number_of(score, where, "score")


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
        if query_id not in ranks:
            ranks[query_id], begun[query_id] = set(), where
        if rank in ranks[query_id]:
            _refuse_ranks(where, query_id, f"{rank} comes twice")
        ranks[query_id].add(rank)
        yield entry
    for query_id, numbers in ranks.items():
        if max(numbers) != len(numbers):
            missing = next(rank for rank in count(1) if rank not in numbers)
            _refuse_ranks(begun[query_id], query_id, f"{missing} is missing")


def _refuse_ranks(where: Place, query_id: str, what: str) -> NoReturn:
    raise DatasetError(
        f"{said(where)}: the ranks of query {quoted(query_id)}, the third column of {MSMARCO}: {what}: allowed is each "
        "of 1 to the number of its documents once; scores need lines of "
        f"{TREC}, or a CSV or TSV with a header"
    )
