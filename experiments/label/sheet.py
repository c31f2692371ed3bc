"""Judging in a spreadsheet: rows to fill in, and their way back."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from io import StringIO
from itertools import islice
from pathlib import Path

from experiments.label.desk import Desk
from experiments.label.labels import GRADES, Label
from experiments.publish.files import write_text
from ragtune.core.errors import DatasetError
from ragtune.core.plain import quoted
from ragtune.data.files.textfile import read_raw_lines

COLUMNS = ("grade", "query", "title", "text", "query_id", "doc_id")

_FORMULA = ("=", "+", "-", "@", "\t")
"""How a cell begins that a spreadsheet would compute."""


def write_sheet(desk: Desk, file: Path, rows: int) -> int:
    """Write the next documents to judge, with an empty grade each, and return how many."""
    tasks = list(islice(desk.tasks(), rows))
    out = StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(COLUMNS)
    for task in tasks:
        table.writerow(["", *map(_shown, (task.query, task.title, task.text)), task.query_id, task.doc_id])
    write_text(file, out.getvalue())
    return len(tasks)


def read_sheet(desk: Desk, file: Path) -> tuple[int, int]:
    """Take over the grades of a sheet that was filled in; return how many it has, and how many rows have none."""
    graded, empty = [], 0
    for where, row in _rows(file):
        text = (row["grade"] or "").strip()
        ids = row["query_id"] or "", row["doc_id"] or ""
        if not desk.knows(*ids):
            raise DatasetError(f"{where}: query {quoted(ids[0])} and document {quoted(ids[1])} are not in the data")
        if not text:
            empty += 1
        elif text not in map(str, GRADES):
            raise DatasetError(f"{where}: 'grade' is {quoted(text)}: allowed are 0, 1, 2, 3 and nothing")
        else:
            graded.append((ids, int(text)))
    known = desk.labels.grades
    for (query_id, doc_id), grade in graded:
        if known.get((query_id, doc_id)) != grade:
            desk.labels.add(Label(query_id=query_id, doc_id=doc_id, grade=grade))
    desk.write()
    return len(graded), empty


def _rows(file: Path) -> Iterator[tuple[str, dict[str, str | None]]]:
    lines = [line for _, line in read_raw_lines(file)]
    separator = ";" if lines and lines[0].count(";") > lines[0].count(",") else ","  # some spreadsheets write that
    table = csv.DictReader(lines, delimiter=separator)
    if missing := [name for name in ("grade", "query_id", "doc_id") if name not in (table.fieldnames or ())]:
        raise DatasetError(f"{file}: column {missing[0]!r} is missing: needed are grade, query_id and doc_id")
    for row in table:
        yield f"{file}:{table.line_num}", row


def _shown(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text
