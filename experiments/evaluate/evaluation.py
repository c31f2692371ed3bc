"""What becomes of a run's queries as they are finished, so that nothing long of them need be held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Protocol, Self, TypeVar

import numpy as np

from experiments.datasets.dataset import Dataset
from experiments.evaluate.curves import Curve
from experiments.evaluate.incumbents import EVERYTHING, TOGETHER, Beaten, Faced, depth_line, face
from experiments.evaluate.measures import Measures
from experiments.evaluate.outcomes import Outcomes
from experiments.evaluate.record import QueryRecord, Ranked
from experiments.evaluate.spool import Spool
from experiments.evaluate.stack import Stack
from experiments.evaluate.steps import Steps
from ragtune.core.arrays import IntArray

_ROOM = 1_000_000
"""Candidates of the incumbent that are held, ranked, until the line of fixed depth is drawn: some ten bytes each."""


class _Table(Protocol):
    def taken(self, queries: IntArray, folder: Path | None) -> Self: ...


T = TypeVar("T", bound=_Table)


class Evaluation:
    """Measures queries beside their incumbents as they are finished, and keeps columns of figures.

    Args:
        dataset: the collection, with at least one query that counts.
        measures: what is measured.
        beaten: the incumbents; asked for the queries that have just been finished.
        folder: where what is looked at once more may wait.
        fixed_depth: the run's policy is fixed depth, which is measured after every document.
    """

    def __init__(
        self,
        dataset: Dataset,
        measures: Measures,
        beaten: Beaten,
        folder: Path,
        *,
        fixed_depth: bool = False,
    ) -> None:
        self._fixed_depth = fixed_depth
        self._dataset, self._measures, self._beaten = dataset, measures, beaten
        self._folder = folder
        self._new: list[QueryRecord] = []
        self._waiting: list[QueryRecord] = []
        self._outcomes: Stack[Outcomes] = Stack(folder)
        self._measured: list[str] = []
        self._steps: Stack[Steps] = Stack(folder)
        self._faced: dict[str, Stack[Faced]] | None = None
        self._everything: Spool[Sequence[Ranked]] = Spool(folder, _ROOM)

    def add(self, records: Sequence[QueryRecord]) -> None:
        """Take finished queries; those that are not judged have an outcome only."""
        self._new += records
        if len(self._new) >= TOGETHER:
            self._conclude()
        self._waiting += [record for record in records if self._dataset.counts(record.query_id)]
        if len(self._waiting) >= TOGETHER:
            self._measure()

    def outcomes(self) -> Outcomes:
        """How the queries that have been added have ended, in replay order."""
        self._conclude()
        outcomes = self._outcomes.whole()
        return self._in_order(outcomes, self._order_of(outcomes.query_ids))

    def steps(self) -> Steps:
        """The anytime steps of the judged queries, all of which have been added."""
        self._measure()
        return self._in_order(self._steps.whole(), self._order)

    def faced(self) -> dict[str, Faced]:
        """The judged queries, all of which have been added, beside each incumbent that could answer all of them."""
        self._measure()
        return {name: self._in_order(stack.whole(), self._order) for name, stack in (self._faced or {}).items()}

    def depth_line(self, run: Curve) -> dict[int, float] | None:
        """What fixed depth reaches with as many documents as the run, see
        :func:`experiments.evaluate.incumbents.depth_line`; None where the pools are not scored to their ends.
        """
        self._measure()
        if EVERYTHING not in (self._faced or {}):
            return None
        return depth_line(self._everything, run, self._measures, self._order, self._folder)

    @cached_property
    def _order(self) -> IntArray | None:
        """Where the judged queries are among those that have been measured, which are all."""
        return self._order_of(self._measured)

    def _order_of(self, query_ids: Sequence[str]) -> IntArray | None:
        """The places of these queries, shape (q,), in the order of replay; None where they stand in it."""
        numbers = np.fromiter(map(self._dataset.numbers.__getitem__, query_ids), np.intp, len(query_ids))
        return None if (numbers[1:] > numbers[:-1]).all() else numbers.argsort()

    def _in_order(self, table: T, order: IntArray | None) -> T:
        return table if order is None else table.taken(order, self._folder)

    def _conclude(self) -> None:
        records, self._new = self._new, []
        if records:
            self._outcomes.add(Outcomes.of(records))

    def _measure(self) -> None:
        """Measure the queries that wait beside their incumbents, and let them go."""
        records, self._waiting = self._waiting, []
        if not records:
            return
        found = self._beaten([record.query_id for record in records])
        self._measured.extend(record.query_id for record in records)
        self._steps.add(Steps.of(records, self._measures, fixed_depth=self._fixed_depth))
        self._face(face(records, found, self._measures))
        if everything := found.get(EVERYTHING):
            self._everything.append(everything, sum(len(ranked.doc_ids) for ranked in everything))

    def _face(self, faced: Mapping[str, Faced]) -> None:
        """Keep these queries beside their incumbents, and only what could answer all so far."""
        if self._faced is None:
            self._faced = {name: Stack(self._folder) for name in faced}
        self._faced = {name: stack for name, stack in self._faced.items() if name in faced}
        for name, stack in self._faced.items():
            stack.add(faced[name])
