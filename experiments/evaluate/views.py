"""Views: states of the anytime history that are measured by themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from experiments.evaluate.curves import FloatArray, bootstrap_interval
from experiments.evaluate.measures import Measures
from experiments.evaluate.record import QueryRecord
from experiments.evaluate.summary import ViewFigures


@dataclass(frozen=True)
class View:
    """One view of every query.

    Attributes:
        name: as files and metrics call it.
        rankings: document ids by query id, best first, of all replayed queries.
        measures: names, m of them.
        per_query: shape (q, m), of the judged queries in replay order.
        low, high: shape (m,), bootstrap interval of the mean.
    """

    name: str
    rankings: Mapping[str, Sequence[str]]
    measures: Sequence[str]
    per_query: FloatArray
    low: FloatArray
    high: FloatArray

    @property
    def figures(self) -> ViewFigures:
        """What the summary says of the view."""
        intervals = zip(self.low.tolist(), self.high.tolist(), strict=True)
        return ViewFigures(
            docs_per_query=float(np.mean([len(ranking) for ranking in self.rankings.values()])),
            measures=dict(zip(self.measures, self.per_query.mean(axis=0).tolist(), strict=True)),
            interval=dict(zip(self.measures, intervals, strict=True)),
        )


def views_of(
    records: Sequence[QueryRecord],
    positions: Mapping[str, int],
    judged: Sequence[str],
    measures: Measures,
    *,
    resamples: int,
    level: float,
    seed: int,
) -> list[View]:
    """The named views of a run, measured.

    Args:
        records: all of the run.
        positions: of each view in ``QueryRecord.rankings``.
        judged: queries that count.
        measures: what is measured.
        resamples, level, seed: of the intervals.
    """
    views = []
    for name, position in positions.items():
        rankings = {record.query_id: record.ranking_at(position) for record in records}
        values = measures.of_topics(rankings, {query_id: query_id for query_id in judged})
        low, high = bootstrap_interval(values, resamples=resamples, level=level, seed=seed)
        views.append(View(name, rankings, measures.names, values, low, high))
    return views
