"""Measures a run's queries as they are finished, so that their records need not stay in memory."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import SpooledTemporaryFile

from experiments.datasets.dataset import Dataset
from experiments.evaluate.baselines import EVERYTHING, TOGETHER, Beaten, Faced, depth_line, face
from experiments.evaluate.curves import Curve
from experiments.evaluate.measures import Measures
from experiments.evaluate.outcomes import Outcomes
from experiments.evaluate.record import QueryRecord, Ranked
from experiments.evaluate.rows import Rows
from experiments.evaluate.steps import Steps

_ROOM = 16_000_000
"""Bytes of the rankings of full reranking that stay in memory until the line of fixed depth is drawn."""


class Evaluation:
    """Measures finished queries beside the baselines, and keeps columns of figures.

    Args:
        dataset: the collection, with at least one judged query.
        measures: what is measured.
        beaten: replays the baselines; called for queries that have just been finished.
        folder: for temporary files.
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
        self._waiting: list[QueryRecord] = []
        self._outcomes: list[Outcomes] = []
        self._steps: dict[str, Rows] = {}
        self._faced: dict[str, list[Faced]] | None = None
        self._everything = SpooledTemporaryFile(max_size=_ROOM, dir=str(folder))  # noqa: SIM115 -- closed with this object

    def add(self, record: QueryRecord) -> None:
        """Take a finished query, in replay order. Of unjudged queries, only the outcome counts."""
        self._waiting.append(record)
        if len(self._waiting) >= TOGETHER:
            self._conclude()

    def outcomes(self) -> Outcomes:
        """How all added queries ended."""
        self._conclude()
        return Outcomes.joined(self._outcomes)

    def steps(self) -> Steps:
        """The anytime steps of the judged queries."""
        self._conclude()
        return Steps(**{name: rows.whole() for name, rows in self._steps.items()})

    def faced(self) -> dict[str, Faced]:
        """The judged queries beside each baseline that could answer all of them."""
        self._conclude()
        return {name: Faced.joined(parts) for name, parts in (self._faced or {}).items()}

    def depth_line(self, run: Curve) -> dict[int, float] | None:
        """See :func:`experiments.evaluate.baselines.depth_line`; None where full reranking lacks scores."""
        self._conclude()
        if EVERYTHING not in (self._faced or {}):
            return None
        return depth_line(self._rankings_in_full(), run, self._measures)

    def _rankings_in_full(self) -> Iterator[Sequence[Ranked]]:
        self._everything.seek(0)
        try:
            while True:
                yield pickle.load(self._everything)  # noqa: S301 -- written by this object
        except EOFError:
            return

    def _conclude(self) -> None:
        """Measure the waiting queries and let their records go."""
        records, self._waiting = self._waiting, []
        if records:
            self._outcomes.append(Outcomes.of(records))
        judged = [record for record in records if self._dataset.counts(record.query_id)]
        if not judged:
            return
        steps = Steps.of(judged, self._measures, fixed_depth=self._fixed_depth)
        for name, column in vars(steps).items():
            self._steps.setdefault(name, Rows(self._folder)).extend(column)
        found = self._beaten([record.query_id for record in judged])
        if everything := found.get(EVERYTHING):
            pickle.dump(everything, self._everything, protocol=pickle.HIGHEST_PROTOCOL)
        beside = face(judged, found, self._measures)
        if self._faced is None:
            self._faced = {name: [] for name in beside}
        self._faced = {name: [*parts, beside[name]] for name, parts in self._faced.items() if name in beside}
