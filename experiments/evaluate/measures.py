"""Measures of ir-measures over fixed judgments."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.datasets.dataset import Qrels
from ragtune.core.arguments import check_count
from ragtune.core.errors import ConfigError

Rankings = Mapping[str, Sequence[str]]
"""Document ids, best first, by topic."""


class Measures:
    """A fixed list of measures over fixed judgments.

    Args:
        names: in ir-measures' notation, e.g. ``nDCG@10``.
        qrels: graded judgments.

    Raises:
        ConfigError: on an empty list, an unknown measure, a cutoff or relevance level below 1, or a measure that needs
            a library, an argument or judgments that are not there.
    """

    def __init__(self, names: Sequence[str], qrels: Qrels) -> None:
        import ir_measures

        if not qrels:
            raise ConfigError("there are no judgments to measure by: only run.py does without, see dataset.split")
        if not names:
            raise ConfigError("measures is empty: name at least one, e.g. nDCG@10")
        if len(set(names)) != len(names):
            raise ConfigError(f"measures={list(names)}: one is named twice")
        self.names = list(names)
        self._qrels = qrels
        self._prepared: tuple[frozenset[str], Any] | None = None
        try:
            self._measures = [ir_measures.parse_measure(name) for name in names]
        except (ValueError, NameError, SyntaxError) as error:
            raise ConfigError(
                f"measures={list(names)}: {error}; allowed is ir-measures' notation, e.g. nDCG@10"
            ) from None
        for measure in self._measures:
            self._check(measure)
            self._try(measure)

    def of_topics(self, rankings: Rankings, topic_query: Mapping[str, str]) -> NDArray[np.float64]:
        """Measure rankings.

        Args:
            rankings: by topic; several topics may be states of one query.
            topic_query: the judged query of each topic. A topic without a ranking scores the measure's default, 0.

        Returns:
            Values of shape (len(topic_query), len(names)), with the topics in the order of ``topic_query``.
        """
        row = {topic: i for i, topic in enumerate(topic_query)}
        column = _Columns([str(measure) for measure in self._measures])
        values = np.zeros((len(row), len(self._measures)))
        evaluator = self._evaluator(frozenset(topic_query.values()))
        for states in _one_state_a_query(topic_query):
            run = {query: strictly_decreasing(rankings[t]) for query, t in states.items() if rankings.get(t)}
            for metric in evaluator.iter_calc(run) if run else ():
                if metric.query_id in run:
                    values[row[states[metric.query_id]], column[metric.measure]] = metric.value
        return values

    @staticmethod
    def _check(measure: Any) -> None:
        """What ir-measures lets pass: trec_eval ends the whole process on a cutoff of 0."""
        for name in ("cutoff", "rel"):
            if name in measure.params:
                check_count(f"measure {str(measure)!r}: {name}", measure.params[name], low=1)

    def _try(self, measure: Any) -> None:
        """Measure one document of one query: what lacks a library or an argument says so only then."""
        import ir_measures

        for query, judged in islice(self._qrels.items(), 1):
            try:
                with _silent_tools():
                    evaluator = ir_measures.evaluator([measure], {query: dict(judged)})
                    list(evaluator.iter_calc({query: {next(iter(judged)): 1.0}}))
            except Exception as error:
                reason = " ".join(str(error).split())[:200]
                raise ConfigError(f"measure {str(measure)!r} cannot be computed here: {reason}") from None

    def _evaluator(self, queries: frozenset[str]) -> Any:
        """Kept between calls: digesting the judgments takes longer than measuring a run by them."""
        import ir_measures

        if self._prepared is None or self._prepared[0] != queries:
            qrels = {query: dict(judged) for query, judged in self._qrels.items() if query in queries}
            self._prepared = queries, ir_measures.evaluator(self._measures, qrels)
        return self._prepared[1]


@contextmanager
def _silent_tools() -> Iterator[None]:
    """Send to nowhere what a measure's tool, a process of its own, says on standard error."""
    sys.stderr.flush()
    saved, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)


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


def _one_state_a_query(topic_query: Mapping[str, str]) -> list[dict[str, str]]:
    """The topics in groups of ``{query: topic}``: a tool measures a query once a run."""
    groups: list[dict[str, str]] = []
    seen: Counter[str] = Counter()
    for topic, query in topic_query.items():
        if seen[query] == len(groups):
            groups.append({})
        groups[seen[query]][query] = topic
        seen[query] += 1
    return groups


def strictly_decreasing(ranking: Sequence[str]) -> dict[str, float]:
    """Scores by document id which make every tool keep this order; ir-measures would reorder equal scores by id."""
    return {doc_id: float(len(ranking) - i) for i, doc_id in enumerate(ranking)}
