"""The judgments of a folder, the next document to judge, and what the judgments say so far."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from experiments.datasets.dataset import Dataset
from experiments.label.plan import FILE, QRELS, LabelPlan, Verdict, decide
from experiments.publish.files import write_text
from ragtune.core.errors import DatasetError
from ragtune.core.plain import quoted

PERSON = "person"

GRADES = (0, 1, 2, 3)
SKIPPED = "skip"
"""In place of a grade: undecidable."""

LEGEND = (
    "0  it has nothing to do with the query",
    "1  it is about the same topic but does not answer",
    "2  it holds some of the answer, or the answer is hidden among other matter",
    "3  it is about the query and holds the exact answer, clearly",
)
"""What the grades mean; a model is asked in the same words."""


class Label(BaseModel):
    """One line of the journal; its grade is None where a label was taken back."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    query_id: str
    doc_id: str
    grade: int | str | None
    by: str = PERSON


class Labels:
    """The latest label of each query and document, in the order of judging, each on the disk before the next."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._journal = folder / "labels.jsonl"
        self.latest: dict[tuple[str, str], Label] = {}
        for label in self._read():
            self._note(label)

    @property
    def grades(self) -> dict[tuple[str, str], int]:
        """Grades by query and document, without what was skipped."""
        return {pair: label.grade for pair, label in self.latest.items() if isinstance(label.grade, int)}

    @property
    def by_models(self) -> dict[str, int]:
        models = [label.by for label in self.latest.values() if isinstance(label.grade, int) and label.by != PERSON]
        return {name: models.count(name) for name in sorted(set(models))}

    def add(self, label: Label) -> None:
        """Append a label, which replaces an earlier one of the same document."""
        with self._journal.open("a", encoding="utf-8", newline="\n") as out:
            out.write(label.model_dump_json() + "\n")
            out.flush()
            os.fsync(out.fileno())
        self._note(label)

    def undo(self) -> Label | None:
        if not self.latest:
            return None
        last = list(self.latest.values())[-1]
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
        self.latest.pop(pair, None)  # the order is that of judging
        if label.grade is not None:
            self.latest[pair] = label

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
        if label.grade is None or label.grade in (*GRADES, SKIPPED):
            return label
    except ValueError:
        pass
    text = line.decode(errors="replace")
    raise DatasetError(f"{where}: {quoted(text)} is no label: remove the line, or choose another --out")


@dataclass(frozen=True)
class Task:
    """A document to judge for a query; ``title`` may be empty."""

    query_id: str
    query: str
    doc_id: str
    title: str
    text: str


class Desk:
    """One person's, or one model's, work on a folder of labels; ``orders`` identifies the two orders."""

    def __init__(self, dataset: Dataset, plan: LabelPlan, labels: Labels, orders: str) -> None:
        self.labels = labels
        self.dataset = dataset
        self._plan = plan
        self._orders = orders

    def tasks(self) -> Iterator[Task]:
        """What is still to be judged, most telling first. A pair is left out once one of its documents was skipped."""
        judged = self.labels.latest
        skipped = {pair for pair, label in judged.items() if label.grade == SKIPPED}
        for pair in self._plan.pairs:
            if not skipped & {(pair.query_id, pair.up), (pair.query_id, pair.down)}:
                for doc_id in pair.shown:
                    if (pair.query_id, doc_id) not in judged:
                        document = self.dataset.corpus[doc_id]
                        query = self.dataset.queries[pair.query_id]
                        yield Task(pair.query_id, query, doc_id, document.title, document.text)

    def next(self) -> Task | None:
        """The document to judge now; None where all are judged."""
        return next(self.tasks(), None)

    def grade(self, task: Task, grade: int | str, by: str = PERSON) -> None:
        """Note a grade, or :data:`SKIPPED` to leave a document and its pair out, and write what follows from it."""
        self.labels.add(Label(query_id=task.query_id, doc_id=task.doc_id, grade=grade, by=by))
        self.write()

    def undo(self) -> Label | None:
        label = self.labels.undo()
        self.write()
        return label

    def verdict(self) -> Verdict:
        grades = self.labels.grades
        return Verdict(
            orders=self._orders,
            dataset=self.dataset.name,
            labels=len(grades),
            by_models=self.labels.by_models,
            decision=decide(self._plan, grades),
        )

    def write(self) -> None:
        self.labels.write_qrels()
        write_text(self.labels.folder / FILE, json.dumps(self.verdict().model_dump(), indent=1) + "\n")
