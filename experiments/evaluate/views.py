"""Views: states of the anytime history that are measured by themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.evaluate.curves import FloatArray, bootstrap_interval
from experiments.evaluate.measures import Measures
from experiments.evaluate.record import QueryRecord


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
    def figures(self) -> dict[str, Any]:
        """What the summary says of it."""
        return {
            "docs_per_query": float(np.mean([len(ranking) for ranking in self.rankings.values()])),
            "measures": dict(zip(self.measures, self.per_query.mean(axis=0).tolist(), strict=True)),
            "interval": {
                name: [float(low), float(high)]
                for name, low, high in zip(self.measures, self.low, self.high, strict=True)
            },
        }


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


def print_views(views: Mapping[str, Mapping[str, Any]], docs: float) -> None:
    """View by measure, with intervals, and what the views cost.

    Args:
        views: ``figures`` by name.
        docs: documents reranked a query.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table

    title = f"views; {docs:.1f} documents reranked per query"
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False)
    table.add_column("view")
    table.add_column("documents\nin it", justify="right")
    for name in next(iter(views.values()))["measures"]:
        table.add_column(name, justify="right", no_wrap=True)
    for name, figures in views.items():
        values = zip(figures["measures"].values(), figures["interval"].values(), strict=True)
        cells = [f"[bold]{value:.4f}[/bold]\n{low:.3f}-{high:.3f}" for value, (low, high) in values]
        table.add_row(name, f"{figures['docs_per_query']:.1f}", *cells)
    Console(highlight=False).print(table)
