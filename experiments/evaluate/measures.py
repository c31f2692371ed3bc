"""Measures of ir-measures over fixed judgments."""

from __future__ import annotations

import math
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.datasets.dataset import Qrels
from experiments.evaluate.rankings import RankMeasures, States
from ragtune.core.arguments import check_count
from ragtune.core.errors import ConfigError

Rankings = Mapping[str, Sequence[str]]
"""Document ids, best first, by topic."""

_BLOCK = 2048
"""Rankings measured at once, so that memory does not grow with their number."""


class Measures:
    """A fixed list of measures over fixed judgments."""

    def __init__(self, names: Sequence[str], qrels: Qrels, *, shown: Sequence[str] | None = None) -> None:
        import ir_measures

        if not qrels:
            raise ConfigError("there are no judgments to measure by: only run.py does without, see dataset.split")
        if not names:
            raise ConfigError("measures is empty: name at least one, e.g. nDCG@10")
        if len(set(names)) != len(names):
            raise ConfigError(f"measures={list(names)}: one is named twice")
        self.names = list(shown or names)
        self._qrels = qrels
        self._prepared: tuple[tuple[str, ...], Any] | None = None
        try:
            self._measures = [ir_measures.parse_measure(name) for name in names]
        except (ValueError, NameError, SyntaxError) as error:
            allowed = "allowed is ir-measures' notation, e.g. nDCG@10"
            raise ConfigError(f"measures={list(names)}: {error}; {allowed}") from None
        for measure in self._measures:
            for option in measure.params.keys() & {"cutoff", "rel"}:  # trec_eval ends the whole process on a 0
                check_count(f"measure {str(measure)!r}: {option}", measure.params[option], low=1)
            self._try(measure)
        covered = [measure for measure in self._measures if RankMeasures.covers(measure)]
        self._others = [_without_default(measure) for measure in self._measures if not RankMeasures.covers(measure)]
        self._ranked = RankMeasures(covered, qrels)
        self._order = np.argsort([self._measures.index(measure) for measure in (*covered, *self._others)])

    def of_topics(self, rankings: Rankings, topic_query: Mapping[str, str]) -> NDArray[np.float64]:
        """Values of shape (len(topic_query), len(names)), with the topics in the order of ``topic_query``."""
        return self.of_states(States.of(query, rankings.get(topic, ())) for topic, query in topic_query.items())

    def of_states(self, states: Iterable[States]) -> NDArray[np.float64]:
        """Values of shape (number of rankings, len(names)), in their order."""
        blocks = [np.zeros((0, len(self.names)))]
        for block in _in_blocks(states):
            values = np.hstack([self._ranked.of(block), self._by_tools(block)])
            blocks.append(values[:, self._order])
        return np.ascontiguousarray(np.vstack(blocks))  # sums over topics depend on it in the last bit

    def headline_of(self, states: Iterable[States]) -> NDArray[np.float64]:
        """Values of the first measure alone, shape (number of rankings,)."""
        if not RankMeasures.covers(self._measures[0]):
            return self.of_states(states)[:, 0]
        return np.concatenate([np.zeros(0), *(self._ranked.of(block, first=1)[:, 0] for block in _in_blocks(states))])

    def _by_tools(self, states: Sequence[States]) -> NDArray[np.float64]:
        """The measures that ir-measures' tools compute, which measure a query once a run."""
        if not self._others:
            return np.zeros((sum(len(each.orders) for each in states), 0))
        rankings = [ranking for each in states for ranking in each.rankings()]
        queries = [each.query_id for each in states for _ in each.orders]
        values = np.full((len(rankings), len(self._others)), 0.0)
        column = {str(measure): j for j, measure in enumerate(self._others)}
        distinct = tuple(dict.fromkeys(queries))
        evaluator, numbers = self._evaluator(distinct), {query: str(i) for i, query in enumerate(distinct, 1)}
        for positions in _one_state_a_query(queries):
            rows = {numbers[query]: i for query, i in positions.items() if rankings[i]}
            values[list(rows.values())] = np.nan
            run = {number: strictly_decreasing(rankings[i]) for number, i in rows.items()}
            for metric in evaluator.iter_calc(run) if run else ():
                if metric.query_id in rows:
                    values[rows[metric.query_id], column[str(metric.measure)]] = metric.value
        for i, j in np.argwhere(np.isnan(values)).tolist():
            values[i, j] = self._without_value(queries[i], self._others[j])
        return values

    def _without_value(self, query: str, measure: Any) -> float:
        """0 where a tool leaves out a query without a relevant document, as gdeval does."""
        level = measure.params.get("rel", 1)
        if all(grade < level for grade in self._qrels[query].values()):
            return 0.0
        raise ConfigError(
            f"measure {str(measure)!r}: its tool returned no value for query {query!r}; leave the measure out, "
            "or check the judgments of that query"
        )

    def _try(self, measure: Any) -> None:
        """Measure one document of one query, since a missing library or argument shows only then."""
        import ir_measures

        for judged in islice(self._qrels.values(), 1):
            try:
                with _silent_tools():
                    evaluator = ir_measures.evaluator([measure], {"1": _not_negative(judged)})
                    list(evaluator.iter_calc({"1": {next(iter(judged)): 1.0}}))
            except Exception as error:
                reason = " ".join(str(error).split())[:200]
                raise ConfigError(f"measure {str(measure)!r} cannot be computed here: {reason}") from None

    def _evaluator(self, queries: tuple[str, ...]) -> Any:
        """Measures queries numbered from 1, as some tools want them; digesting judgments is slow, so it stays."""
        import ir_measures

        if self._prepared is None or self._prepared[0] != queries:
            qrels = {str(i): _not_negative(self._qrels[query]) for i, query in enumerate(queries, 1)}
            self._prepared = queries, ir_measures.evaluator(self._others, qrels)
        return self._prepared[1]


def _without_default(measure: Any) -> Any:
    """The measure with no number for a query of which its tool returns nothing; ir-measures would put in 0."""
    measure = copy(measure)  # ir-measures' own object serves the whole process
    measure.DEFAULT = math.nan
    return measure


def _not_negative(judged: Mapping[str, int]) -> dict[str, int]:
    """Grades as trec_eval survives them: it may end the process where all grades of a query are below 0."""
    return {doc_id: max(grade, 0) for doc_id, grade in judged.items()}


def _in_blocks(states: Iterable[States]) -> Iterator[list[States]]:
    block: list[States] = []
    held = 0
    for each in states:
        block.append(each)
        held += len(each.orders)
        if held >= _BLOCK:
            yield block
            block, held = [], 0
    if block:
        yield block


@contextmanager
def _silent_tools() -> Iterator[None]:
    """Discard what a measure's tool, a process of its own, writes to standard error."""
    sys.stderr.flush()
    saved, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)


def _one_state_a_query(queries: Sequence[str]) -> list[dict[str, int]]:
    groups: defaultdict[int, dict[str, int]] = defaultdict(dict)
    seen: Counter[str] = Counter()
    for i, query in enumerate(queries):
        groups[seen[query]][query] = i
        seen[query] += 1
    return list(groups.values())


def strictly_decreasing(ranking: Sequence[str]) -> dict[str, float]:
    """Scores by document id which make every tool keep this order; ir-measures would reorder equal scores by id."""
    return {doc_id: float(len(ranking) - i) for i, doc_id in enumerate(ranking)}
