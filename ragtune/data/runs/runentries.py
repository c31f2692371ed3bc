"""Entries of files of ranked documents, one by one, each with its place."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import NoReturn

from ragtune.core.errors import DatasetError
from ragtune.core.plain import quoted
from ragtune.data.files.records import DOC_ID, QUERY_ID, Schema, read_records, record_files, text_form
from ragtune.data.files.textfile import read_lines
from ragtune.data.files.values import id_of, number_of, require_id
from ragtune.data.runs.run import RunEntry
from ragtune.data.runs.searchfile import holds_responses, read_responses

Found = tuple[str, str, RunEntry]
"""Where an entry stands, its query, and the entry."""

TREC = "'query_id Q0 doc_id rank score tag'"
MSMARCO = "'query_id doc_id rank'"
"""The lines of the two kinds of runs, for messages."""

_NAMES = {"query_id": QUERY_ID, "doc_id": DOC_ID, "score": ("score",), "rank": ("rank",)}
SCORED = Schema(_NAMES, frozenset({"query_id", "doc_id", "score"}))
"""The columns of a table of scored documents."""


def entries_of(path: Path, order: Sequence[str], needs_scores: bool) -> Iterator[Found]:
    """Yield the entries of a run in the order of its file or folder.

    The arguments are those of :func:`ragtune.data.runs.runfile.read_run`.

    Raises:
        DatasetError: naming file and line of what is no entry.
    """
    first = record_files(path)[0]
    form = text_form(first, is_spaced=True)
    if form == "json" and holds_responses(first):
        yield from _response_entries(path, order)
    elif form in ("arrow", "json", "csv") or (form != "empty" and _is_header(line := next(read_lines(first))[1])):
        yield from _table_entries(path)
    elif form != "empty":
        yield from _line_entries(path, line, needs_scores)


def _response_entries(path: Path, order: Sequence[str]) -> Iterator[Found]:
    answered: set[str] = set()
    for file in record_files(path):
        for where, query_id, hits in read_responses(file, order):
            if query_id in answered:
                raise DatasetError(f"{where}: a second response for query {quoted(query_id)}: allowed is one")
            answered.add(query_id)
            for rank, (doc_id, score) in enumerate(hits, start=1):
                yield where, query_id, RunEntry(doc_id, rank, score)


def _is_header(line: str) -> bool:
    return not SCORED.lacks(SCORED.choose(line.split("\t" if "\t" in line else None)))


def _table_entries(path: Path) -> Iterator[Found]:
    last = None
    for where, (query_id, doc_id, score, rank) in read_records(path, SCORED):
        ours = id_of(query_id, where, "query_id"), id_of(doc_id, where, "doc_id")
        if ours[0] != last:  # rows of a query follow each other
            last = require_id(ours[0], f"{where}: 'query_id' is")
        require_id(ours[1], f"{where}: 'doc_id' is")
        place = 0 if rank is None else number_of(rank, where, "rank")
        if not math.isfinite(place):
            raise DatasetError(f"{where}: 'rank' is {quoted(rank)}: allowed is a whole number")
        yield where, ours[0], RunEntry(ours[1], int(place), number_of(score, where, "score"))


def _line_entries(path: Path, first: str, needs_scores: bool) -> Iterator[Found]:
    files = record_files(path)
    if len(first.split()) != 3:
        yield from _parsed(files, TREC, _trec)
    elif needs_scores:
        raise DatasetError(f"{path}: lines of {MSMARCO} hold no scores: allowed are lines of {TREC}")
    else:
        yield from _ranked(_parsed(files, MSMARCO, _msmarco))


def _parsed(
    files: Sequence[Path], expected: str, parse: Callable[[Sequence[str]], tuple[str, RunEntry]]
) -> Iterator[Found]:
    for file in files:
        for number, line in read_lines(file):
            try:
                query_id, entry = parse(line.split())
            except ValueError:
                raise DatasetError(
                    f"{file}:{number}: malformed line {quoted(line.strip())}: expected {expected}"
                ) from None
            yield f"{file}:{number}", query_id, entry


def _ranked(found: Iterator[Found]) -> Iterator[Found]:
    """The same entries; refused where the third column is something else than ranks, e.g. scores or grades."""
    ranks: dict[str, set[int]] = {}
    begun: dict[str, str] = {}
    for where, query_id, entry in found:
        if query_id not in ranks:
            ranks[query_id], begun[query_id] = set(), where
        if entry.rank in ranks[query_id]:
            _refuse_ranks(where, query_id, f"{entry.rank} comes twice")
        ranks[query_id].add(entry.rank)
        yield where, query_id, entry
    for query_id, numbers in ranks.items():
        if max(numbers) != len(numbers):
            missing = next(rank for rank in count(1) if rank not in numbers)
            _refuse_ranks(begun[query_id], query_id, f"{missing} is missing")


def _refuse_ranks(where: str, query_id: str, what: str) -> NoReturn:
    raise DatasetError(
        f"{where}: the ranks of query {quoted(query_id)}, the third column of {MSMARCO}: {what}: allowed is each of 1 "
        f"to the number of its documents once; scores need lines of {TREC}, or a CSV or TSV with a header"
    )


def _trec(fields: Sequence[str]) -> tuple[str, RunEntry]:
    query_id, _, doc_id, rank, score, _ = fields
    return query_id, RunEntry(doc_id, int(rank), float(score))


def _msmarco(fields: Sequence[str]) -> tuple[str, RunEntry]:
    query_id, doc_id, rank = fields
    if (place := int(rank)) < 1:
        raise ValueError(rank)
    return query_id, RunEntry(doc_id, place, 1.0 / place)
