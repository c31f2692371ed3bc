"""The anytime steps of many queries as columns, and quality-versus-cost curves from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments.evaluate.files import Rows
from experiments.evaluate.measures import Measures
from experiments.evaluate.rankings import Positions, States, small
from experiments.evaluate.record import UNITS, BaselineReplay, QueryRecord
from experiments.evaluate.significance import Bootstrap
from ragtune.core.arrays import FloatArray as FloatArray
from ragtune.core.arrays import IntArray

_DOCS, _CALLS = UNITS.index("docs"), UNITS.index("calls")


@dataclass(frozen=True, eq=False)
class Steps:
    """What the s anytime steps of q queries have cost, one query behind another, and what their rankings are worth."""

    counts: IntArray  # shape (q,), steps of each query; the first of them is before any score
    costs: FloatArray  # shape (s, u), charged by then in each of UNITS
    values: FloatArray  # shape (s, m)
    first_stage: FloatArray  # shape (q, m), of the pool in the first stage's order

    @classmethod
    def of(cls, records: Sequence[QueryRecord], measures: Measures, *, fixed_depth: bool = False) -> Steps:
        """The steps of these records: after each batch, or of fixed depth after each document."""
        states = states_at_every_depth if fixed_depth else QueryRecord.states
        costs = [costs_at_every_depth(one) if fixed_depth else np.array(one.costs, dtype=float) for one in records]
        return cls(
            np.array([len(of_query) for of_query in costs], dtype=np.intp),
            np.concatenate(costs) if costs else np.zeros((0, len(UNITS))),
            measures.of_states(map(states, records)),
            measures.of_states(map(_first_stage, records)),
        )

    def at(self, docs: IntArray) -> IntArray:
        """The rows of the latest steps that each number of documents pays for, shape (q, len(docs))."""
        firsts = np.cumsum(self.counts) - self.counts
        rows: IntArray = firsts[:, None] + latest(self.counts, self.costs[:, 0], docs)
        return rows


def _first_stage(record: QueryRecord) -> States:
    """The documents that the first stage found, in its order, which is that of the pool."""
    return States(record.query_id, record.doc_ids, np.sort(record.rankings[0])[None])


def latest(counts: IntArray, spent: NDArray[np.float64], docs: IntArray) -> IntArray:
    """The latest of each query's own steps that each number of documents pays for, shape (q, d)."""
    # One ascending row, so that one search finds all: each query's numbers lie behind those of the one before.
    behind = np.arange(len(counts)) * (max(spent.max(), docs.max()) + 1)
    found = np.searchsorted(spent + np.repeat(behind, counts), behind[:, None] + docs, side="right") - 1
    steps: IntArray = found - (np.cumsum(counts) - counts)[:, None]
    return steps


def at_depths(ranked: BaselineReplay, depths: IntArray) -> Positions:
    """Rankings of fixed depth at each depth, shape (depths, n): the first d by their scores, the rest behind them."""
    first, n = ranked.first, len(ranked.first)
    is_lost = np.ones(n, dtype=bool)
    is_lost[ranked.final] = False
    best = np.concatenate([ranked.final, first[is_lost[first]]])
    place = np.empty(n, dtype=int)
    place[first] = np.arange(n)
    both = np.concatenate([best, first])
    stands = place[both] < depths[:, None]
    stands[:, n:] ^= True  # the second time that a document comes, it is one of the rest
    rankings: Positions = np.broadcast_to(small(both, n), stands.shape)[stands].reshape(len(depths), n)
    return rankings


def states_at_every_depth(record: QueryRecord) -> States:
    """The rankings of a query of fixed depth after 0, 1, ... documents; the last one is the record's own."""
    ranked = BaselineReplay.of(record)
    if not ranked.docs:
        return record.states([len(record.costs) - 1])
    rankings = at_depths(ranked, np.arange(ranked.docs))
    if len(ranked.final) == rankings.shape[1]:
        return States(record.query_id, record.doc_ids, np.concatenate([rankings, ranked.final[None]]))
    return States(record.query_id, record.doc_ids, [*rankings, ranked.final])


def costs_at_every_depth(record: QueryRecord) -> FloatArray:
    """What has been charged by then, shape (documents + 1, u): a call with its first document, other costs equally."""
    costs = np.array(record.costs, dtype=float)
    docs = costs[:, _DOCS]
    depths = np.arange(docs[-1] + 1)
    if len(depths) == 1:
        return costs[-1:]
    spread = np.stack([np.interp(depths, docs, column) for column in costs.T], axis=1)
    spread[:, _CALLS] = costs[np.searchsorted(docs, depths), _CALLS]
    spread[-1] = costs[-1]
    return spread


@dataclass(frozen=True)
class Curve:
    """Mean quality at each of s cost steps, over the judged queries."""

    measures: Sequence[str]
    docs: NDArray[np.int64]  # shape (s,), documents that each query may have reranked at most; 0 first
    costs: FloatArray  # shape (s, u), mean charged so far in each of UNITS
    per_query: FloatArray  # shape (q, s, m)
    low: FloatArray  # shape (s, m), like high
    high: FloatArray
    first_stage: FloatArray  # shape (m,), means of the first stage's own order

    @property
    def mean(self) -> FloatArray:
        mean: FloatArray = self.per_query.mean(axis=0)
        return mean

    def area(self) -> float:
        """Mean height of the headline's step curve from 0 documents to the last step, see :func:`area`."""
        return area(self.docs.astype(float), self.mean[:, 0], 0.0, float(self.docs[-1]), stepwise=True)

    def docs_to(self, share: float, reference: float) -> int | None:
        """Fewest documents at which the headline's mean reaches ``share * reference``; None if it never does."""
        reached = np.flatnonzero(self.mean[:, 0] >= share * reference - 1e-12)
        return int(self.docs[reached[0]]) if len(reached) else None


_BLOCK = 2**14
"""Queries whose steps are joined at once."""


def curve(steps: Steps, measures: Sequence[str], bootstrap: Bootstrap, folder: Path | None = None) -> Curve:
    """The curve of a run, in which a query that retrieved nothing counts with 0 at every step."""
    docs = np.unique(steps.costs[:, _DOCS].astype(np.int64))
    at, n = steps.at(docs), len(steps.counts)
    spent, values = np.zeros((len(docs), steps.costs.shape[1])), Rows(folder)
    for start in range(0, n, _BLOCK):
        rows = at[start : start + _BLOCK]
        costs = steps.costs[rows]
        costs[0] += spent  # one sum, so that the blocks do not change its rounding
        spent = costs.sum(axis=0)
        values.extend(steps.values[rows])
    per_query, first_stage = values.whole(), steps.first_stage.sum(axis=0)
    return Curve(measures, docs, spent / n, per_query, *bootstrap.interval(per_query), first_stage / n)


def area(x: FloatArray, y: FloatArray, low: float, high: float, *, stepwise: bool) -> float:
    """Mean height of the curve through (x, y) between ``low`` and ``high``; the curve is level outside its points."""
    inside = (x > low) & (x < high)
    xs = np.concatenate(([low], x[inside], [high]))
    if stepwise:
        heights = y[np.maximum(np.searchsorted(x, xs, side="right") - 1, 0)]
        return float(heights[-1] if high <= low else heights[:-1] @ np.diff(xs) / (high - low))
    heights = np.interp(xs, x, y)
    return float(heights[-1] if high <= low else np.trapezoid(heights, xs) / (high - low))
