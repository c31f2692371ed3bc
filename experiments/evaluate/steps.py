"""The anytime steps of many queries, as columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments.evaluate.depths import costs_at_every_depth, states_at_every_depth
from experiments.evaluate.measures import Measures
from experiments.evaluate.record import UNITS, QueryRecord
from experiments.evaluate.rows import taken
from experiments.evaluate.states import States
from ragtune.core.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Steps:
    """What the anytime steps of q queries have cost, and what their rankings are worth.

    Attributes:
        counts: shape (q,), how many of the s steps are each query's; the first of them is before any score.
        costs: shape (s, u), charged by then in each of ``UNITS``, the steps of one query behind those of another.
        values: shape (s, m), measures of the ranking at each step.
        first_stage: shape (q, m), measures of the pool in first-stage order, which no estimator has touched.
    """

    counts: IntArray
    costs: FloatArray
    values: FloatArray
    first_stage: FloatArray

    @classmethod
    def of(cls, records: Sequence[QueryRecord], measures: Measures, *, fixed_depth: bool = False) -> Steps:
        """The steps of these records: after each batch, or of fixed depth after each document."""
        states = states_at_every_depth if fixed_depth else QueryRecord.states
        costs_of = costs_at_every_depth if fixed_depth else _costs
        costs = list(map(costs_of, records))
        return cls(
            np.array([len(of_query) for of_query in costs], dtype=np.intp),
            np.concatenate(costs) if costs else np.zeros((0, len(UNITS))),
            measures.of_states(map(states, records)),
            measures.of_states(map(_first_stage, records)),
        )

    def taken(self, queries: IntArray, folder: Path | None) -> Steps:
        """The steps of the queries at some places, in their order; a folder may hold large columns."""
        counts = self.counts[queries]
        rows = np.repeat(self.firsts[queries] - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
        first_stage = taken(self.first_stage, queries, folder)
        return Steps(counts, taken(self.costs, rows, folder), taken(self.values, rows, folder), first_stage)

    def parts(self) -> Iterator[Steps]:
        """The steps of some queries at a time, so that what is made of them need not be there for all at once."""
        ends = np.cumsum(self.counts)
        for start in range(0, len(self.counts), _BLOCK):
            queries = slice(start, start + _BLOCK)
            rows = slice(int(ends[start] - self.counts[start]), int(ends[queries][-1]))
            yield Steps(self.counts[queries], self.costs[rows], self.values[rows], self.first_stage[queries])

    @property
    def firsts(self) -> IntArray:
        """The row of each query's first step, shape (q,)."""
        firsts: IntArray = np.cumsum(self.counts) - self.counts
        return firsts

    def at(self, docs: IntArray) -> IntArray:
        """The rows of the latest steps that each number of documents pays for, shape (q, len(docs))."""
        rows: IntArray = self.firsts[:, None] + latest(self.counts, self.costs[:, 0], docs)
        return rows


_BLOCK = 2**14
"""Queries in a part."""


def _costs(record: QueryRecord) -> FloatArray:
    return np.array(record.costs, dtype=float)


def _first_stage(record: QueryRecord) -> States:
    """The documents that the first stage found, in its order, which is that of the pool."""
    return States(record.query_id, record.doc_ids, [np.sort(record.rankings[0])])


def latest(counts: IntArray, spent: NDArray[np.float64], docs: IntArray) -> IntArray:
    """For each query and number of documents, the latest anytime step that it pays for.

    Args:
        counts: shape (q,), steps of each query.
        spent: shape (s,), documents charged by each step; no query's numbers fall.
        docs: shape (d,), numbers of documents, none below a query's first step.

    Returns:
        Positions among each query's own steps, shape (q, d).
    """
    # One ascending row, so that one search finds all: each query's numbers lie behind those of the one before.
    behind = np.arange(len(counts)) * (max(spent.max(), docs.max()) + 1)
    found = np.searchsorted(spent + np.repeat(behind, counts), behind[:, None] + docs, side="right") - 1
    steps: IntArray = found - (np.cumsum(counts) - counts)[:, None]
    return steps
