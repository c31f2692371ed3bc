"""What terminal, page, CSV and model share: the next document to judge, and what the judgments say so far."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from experiments.datasets.dataset import Dataset
from experiments.label.choose import Plan
from experiments.label.decide import decide
from experiments.label.labels import PERSON, SKIPPED, Label, Labels
from experiments.label.verdict import FORMAT, Verdict, write_verdict

LEGEND = (
    "0  it has nothing to do with the query",
    "1  it is about the same topic but does not answer",
    "2  it holds some of the answer, or the answer is hidden among other matter",
    "3  it is about the query and holds the exact answer, clearly",
)
"""What the grades mean; a model is asked in the same words."""


@dataclass(frozen=True)
class Task:
    """A document to judge for a query; ``title`` may be empty."""

    query_id: str
    query: str
    doc_id: str
    title: str
    text: str


class Desk:
    """One person's, or one model's, work on a folder of labels."""

    def __init__(self, dataset: Dataset, plan: Plan, labels: Labels, orders: str) -> None:
        self.labels = labels
        self._dataset = dataset
        self._plan = plan
        self._orders = orders

    def tasks(self) -> Iterator[Task]:
        """What is still to be judged, most telling first. A pair is left out once one of its documents was skipped."""
        skipped = {(one.query_id, one.doc_id) for one in self.labels.latest if one.grade == SKIPPED}
        for pair in self._plan.pairs:
            if not skipped & {(pair.query_id, pair.up), (pair.query_id, pair.down)}:
                yield from (self._task(pair.query_id, d) for d in pair.shown if not self.labels.has(pair.query_id, d))

    def next(self) -> Task | None:
        """The document to judge now; None where all are judged."""
        return next(self.tasks(), None)

    def grade(self, task: Task, grade: int, by: str = PERSON) -> None:
        """Note a grade, one of :data:`GRADES`, and write what follows from it."""
        self._note(task, grade, by)

    def skip(self, task: Task, by: str = PERSON) -> None:
        """Leave a document and its pair out."""
        self._note(task, SKIPPED, by)

    def undo(self) -> Label | None:
        """Take back the latest label; None where there is none."""
        label = self.labels.undo()
        self.write()
        return label

    def verdict(self) -> Verdict:
        """What the labels say so far."""
        grades = self.labels.grades
        return Verdict(
            format=FORMAT,
            orders=self._orders,
            dataset=self._dataset.name,
            labels=len(grades),
            by_models=self.labels.by_models,
            decision=decide(self._plan, grades),
        )

    def write(self) -> None:
        """Write ``qrels.tsv`` and ``decision.json``."""
        self.labels.write_qrels()
        write_verdict(self.labels.folder, self.verdict())

    def knows(self, query_id: str, doc_id: str) -> bool:
        """Whether the collection holds a query and a document."""
        return query_id in self._dataset.queries and doc_id in self._dataset.corpus

    def _note(self, task: Task, grade: int | str, by: str) -> None:
        self.labels.add(Label(query_id=task.query_id, doc_id=task.doc_id, grade=grade, by=by))
        self.write()

    def _task(self, query_id: str, doc_id: str) -> Task:
        document = self._dataset.corpus[doc_id]
        return Task(query_id, self._dataset.queries[query_id], doc_id, document.title, document.text)
