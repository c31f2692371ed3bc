"""The judgments of a folder: a journal that survives a kill, and what is written from it."""

from __future__ import annotations

import json
import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from experiments.publish.files import write_text
from ragtune.core.errors import DatasetError
from ragtune.core.plain import quoted

JOURNAL = "labels.jsonl"
QRELS = "qrels.tsv"
PERSON = "person"
"""Who judged, where no model did."""

GRADES = (0, 1, 2, 3)
SKIPPED = "skip"
"""In place of a grade: nobody can say."""

Grade = int | str


class Label(BaseModel):
    """One line of the journal."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    query_id: str
    doc_id: str
    grade: Grade | None
    by: str = PERSON


class Labels:
    """The latest label of each query and document, in the order of judging."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._journal = folder / JOURNAL
        self._latest: dict[tuple[str, str], Label] = {}
        for label in self._read():
            self._note(label)

    @property
    def latest(self) -> list[Label]:
        """The label of each document, skipped ones included."""
        return list(self._latest.values())

    @property
    def grades(self) -> dict[tuple[str, str], int]:
        """Grades by query and document, without what was skipped."""
        return {pair: label.grade for pair, label in self._latest.items() if isinstance(label.grade, int)}

    @property
    def by_models(self) -> dict[str, int]:
        """How many of the grades each model gave."""
        models = [label.by for label in self._latest.values() if isinstance(label.grade, int) and label.by != PERSON]
        return {name: models.count(name) for name in sorted(set(models))}

    def has(self, query_id: str, doc_id: str) -> bool:
        """Whether a document was judged or skipped."""
        return (query_id, doc_id) in self._latest

    def add(self, label: Label) -> None:
        """Append a label, which replaces an earlier one of the same document."""
        with self._journal.open("a", encoding="utf-8", newline="\n") as out:
            out.write(label.model_dump_json() + "\n")
            out.flush()
            os.fsync(out.fileno())
        self._note(label)

    def undo(self) -> Label | None:
        """Take back the latest label and return it; None where there is none."""
        if not self._latest:
            return None
        last = list(self._latest.values())[-1]
        self.add(last.model_copy(update={"grade": None}))
        return last

    def write_qrels(self) -> Path:
        """Write the grades, zeros included, as BEIR's qrels, which ``dataset.qrels`` takes."""
        rows = sorted((query_id, doc_id, grade) for (query_id, doc_id), grade in self.grades.items())
        lines = ["query-id\tcorpus-id\tscore", *("\t".join(map(str, row)) for row in rows)]
        write_text(self.folder / QRELS, "\n".join(lines) + "\n")
        return self.folder / QRELS

    def _note(self, label: Label) -> None:
        pair = label.query_id, label.doc_id
        self._latest.pop(pair, None)  # the order is that of judging
        if label.grade is not None:
            self._latest[pair] = label

    def _read(self) -> list[Label]:
        if not self._journal.exists():
            return []
        raw = self._journal.read_bytes()
        if cut := raw.rpartition(b"\n")[2]:
            os.truncate(self._journal, len(raw) - len(cut))
            raw = raw[: -len(cut)]
        return [_label(line, f"{self._journal}:{number}") for number, line in enumerate(raw.splitlines(), 1)]


def _label(line: bytes, where: str) -> Label:
    try:
        label = Label.model_validate(json.loads(line))
    except (ValueError, ValidationError):
        text = line.decode(errors="replace")
        raise DatasetError(f"{where}: {quoted(text)} is no label: remove the line, or choose another --out") from None
    if label.grade is not None and label.grade not in (*GRADES, SKIPPED):
        raise DatasetError(f"{where}: grade {label.grade!r}: allowed are 0, 1, 2, 3 and {SKIPPED!r}")
    return label
