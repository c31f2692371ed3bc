"""Views: states of the anytime history that are measured by themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from experiments.evaluate.curves import Bootstrap, FloatArray
from experiments.evaluate.measures import Measures
from experiments.evaluate.record import QueryRecord
from experiments.evaluate.states import States
from experiments.evaluate.summary import ViewFigures


@dataclass(frozen=True)
class View:
    """One view, of all queries.

    Attributes:
        name: name of the view in files and metrics.
        rankings: document ids, best first, by query id, for all replayed queries.
        measures: names of the m measures.
        per_query: values of shape (q, m), for the judged queries in replay order.
        low, high: ends of the interval of the mean, shape (m,).
    """

    name: str
    rankings: Mapping[str, Sequence[str]]
    measures: Sequence[str]
    per_query: FloatArray
    low: FloatArray
    high: FloatArray

    @property
    def figures(self) -> ViewFigures:
        """The view in the summary."""
        intervals = zip(self.low.tolist(), self.high.tolist(), strict=True)
        return ViewFigures(
            docs_per_query=float(np.mean([len(ranking) for ranking in self.rankings.values()])),
            measures=dict(zip(self.measures, self.per_query.mean(axis=0).tolist(), strict=True)),
            interval=dict(zip(self.measures, intervals, strict=True)),
        )


def views_of(
    records: Iterable[QueryRecord],
    positions: Mapping[str, int],
    judged: Sequence[str],
    measures: Measures,
    bootstrap: Bootstrap,
) -> list[View]:
    """Measure the views of a run.

    Args:
        records: of all replayed queries.
        positions: position of each view in ``QueryRecord.rankings``, by name.
        judged: ids of the queries that count.
        measures: what is measured.
        bootstrap: of the intervals.
    """
    views = []
    found: dict[str, dict[str, Sequence[str]]] = {name: {} for name in positions}
    for record in records:
        for name, position in positions.items():
            found[name][record.query_id] = record.ranking_at(position)
    for name, rankings in found.items():
        values = measures.of_states(States.of(query_id, rankings.get(query_id, ())) for query_id in judged)
        views.append(View(name, rankings, measures.names, values, *bootstrap.interval(values)))
    return views
