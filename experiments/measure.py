"""Measures, all from ir-measures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.datasets.dataset import Qrels
from ragtune.core.errors import ConfigError

Rankings = Mapping[str, Sequence[str]]
"""Document ids, best first, by topic."""


class Measures:
    """A fixed list of measures over fixed judgments.

    Args:
        names: in ir-measures' notation, e.g. ``nDCG@10``.
        qrels: graded judgments.

    Raises:
        ConfigError: on an empty list or an unknown measure.
    """

    def __init__(self, names: Sequence[str], qrels: Qrels) -> None:
        import ir_measures

        if not names:
            raise ConfigError("measures is empty: name at least one, e.g. nDCG@10")
        if len(set(names)) != len(names):
            raise ConfigError(f"measures={list(names)}: one is named twice")
        self.names = list(names)
        self._qrels = qrels
        try:
            self._measures = [ir_measures.parse_measure(name) for name in names]
        except (ValueError, NameError, SyntaxError) as error:
            raise ConfigError(
                f"measures={list(names)}: {error}; allowed is ir-measures' notation, e.g. nDCG@10"
            ) from None

    def of_topics(self, rankings: Rankings, topic_query: Mapping[str, str]) -> NDArray[np.float64]:
        """Values of shape (len(topic_query), len(names)), in that order of topics.

        Args:
            rankings: by topic; several topics may be states of one query.
            topic_query: the judged query of each topic. A topic without a ranking scores the measure's default, 0.
        """
        import ir_measures

        row = {topic: i for i, topic in enumerate(topic_query)}
        column = _Columns([str(measure) for measure in self._measures])
        values = np.zeros((len(row), len(self._measures)))
        qrels = {topic: dict(self._qrels[query]) for topic, query in topic_query.items()}
        run = {topic: strictly_decreasing(rankings[topic]) for topic in topic_query if rankings.get(topic)}
        for metric in _iter_calc(ir_measures, self._measures, qrels, run):
            values[row[metric.query_id], column[metric.measure]] = metric.value
        return values


class _Columns:
    """Column of each measure, by object: their names are slow to spell, and thousands of values come."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = {name: j for j, name in enumerate(names)}
        self._by_object: dict[int, int] = {}

    def __getitem__(self, measure: Any) -> int:
        key = id(measure)
        if key not in self._by_object:
            self._by_object[key] = self._names[str(measure)]
        return self._by_object[key]


def _iter_calc(ir_measures: Any, measures: Any, qrels: Any, run: Any) -> Iterable[Any]:
    return ir_measures.iter_calc(measures, qrels, run) if run else ()


def strictly_decreasing(ranking: Sequence[str]) -> dict[str, float]:
    """Scores that make any tool keep this order: ir-measures would reorder equal ones by document id."""
    return {doc_id: float(len(ranking) - i) for i, doc_id in enumerate(ranking)}
