"""What becomes of a run's queries as they are finished, so that nothing long of them need be held."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from experiments.evaluate.curves import Curve
from experiments.evaluate.incumbents import EVERYTHING, Faced, depth_line, face
from experiments.evaluate.measures import Measures
from experiments.evaluate.record import QueryRecord, Ranked
from experiments.evaluate.spool import Spool
from experiments.evaluate.steps import Steps

Beaten = Callable[[Sequence[str]], Mapping[str, Sequence[Ranked]]]
"""Replays queries through what a run has to beat: by the name of the incumbent, in the order of the queries. One that
cannot answer some of them is left out from then on."""

_ROOM = 1_000_000
"""Candidates of the incumbent that are held, ranked, until the line of fixed depth is drawn: some ten bytes each."""

_TOGETHER = 512
"""Queries that are measured at once: fewer take longer, of more the records take much memory."""


class Evaluation:
    """Measures queries beside their incumbents as they are finished, and keeps columns of figures.

    Args:
        judged: ids of the queries that count, at least one.
        measures: what is measured.
        beaten: the incumbents; asked for the queries that have just been finished.
        together: how many queries are best handed to ``beaten`` at once.
        folder: where what is looked at once more may wait.
    """

    def __init__(self, judged: Sequence[str], measures: Measures, beaten: Beaten, together: int, folder: Path) -> None:
        self._judged, self._measures, self._beaten, self._together = judged, measures, beaten, together
        self._counted = set(judged)
        self._waiting: list[QueryRecord] = []
        self._met: list[tuple[Sequence[QueryRecord], Mapping[str, Sequence[Ranked]]]] = []
        self._steps: list[Steps] = []
        self._faced: list[dict[str, Faced]] = []
        self._everything: Spool[Sequence[Ranked]] = Spool(folder, _ROOM)

    def add(self, records: Sequence[QueryRecord]) -> None:
        """Take finished queries, of which those that are not judged are passed over."""
        self._waiting += [record for record in records if record.query_id in self._counted]
        if len(self._waiting) >= self._together:
            self._meet()
        if sum(len(met) for met, _ in self._met) >= _TOGETHER:
            self._measure()

    def steps(self) -> Steps:
        """The anytime steps of the judged queries, all of which have been added."""
        self._finish()
        return Steps.joined(self._steps).of_queries(self._judged)

    def faced(self) -> dict[str, Faced]:
        """The judged queries, all of which have been added, beside each incumbent that could answer all of them."""
        self._finish()
        names = [name for name in self._faced[0] if all(name in part for part in self._faced)]
        return {name: Faced.joined([part[name] for part in self._faced], self._judged) for name in names}

    def depth_line(self, run: Curve) -> dict[int, float] | None:
        """What fixed depth reaches with as many documents as the run, see
        :func:`experiments.evaluate.incumbents.depth_line`; None where the pools are not scored to their ends.
        """
        self._finish()
        if not all(EVERYTHING in part for part in self._faced):
            return None
        everything = (ranked for shard in self._everything for ranked in shard)
        return depth_line(everything, run, self._judged, self._measures)

    def _finish(self) -> None:
        self._meet()
        self._measure()

    def _meet(self) -> None:
        records, self._waiting = self._waiting, []
        if records:
            self._met.append((records, self._beaten([record.query_id for record in records])))

    def _measure(self) -> None:
        """Measure what has met its incumbents, and let it go."""
        met, self._met = self._met, []
        if not met:
            return
        records = [record for some, _ in met for record in some]
        names = [name for name in met[-1][1] if all(name in found for _, found in met)]
        found = {name: [ranked for _, found in met for ranked in found[name]] for name in names}
        self._steps.append(Steps.of(records, self._measures))
        self._faced.append(face(records, found, self._measures))
        if everything := found.get(EVERYTHING):
            self._everything.append(everything, sum(len(ranked.doc_ids) for ranked in everything))
