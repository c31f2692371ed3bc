"""The anytime steps of many queries, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.evaluate.measures import Measures
from experiments.evaluate.record import UNITS, QueryRecord
from ragtune.core.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Steps:
    """What the anytime steps of q queries have cost, and what their rankings are worth.

    Attributes:
        query_ids: ids of the queries.
        counts: shape (q,), how many of the s steps are each query's; the first of them is before any score.
        costs: shape (s, u), charged by then in each of ``UNITS``, the steps of one query behind those of another.
        values: shape (s, m), measures of the ranking at each step.
    """

    query_ids: Sequence[str]
    counts: IntArray
    costs: FloatArray
    values: FloatArray

    @classmethod
    def of(cls, records: Sequence[QueryRecord], measures: Measures) -> Steps:
        """The steps of these records."""
        costs = [step for record in records for step in record.costs]
        return cls(
            [record.query_id for record in records],
            np.array([len(record.costs) for record in records], dtype=np.intp),
            np.array(costs, dtype=float) if costs else np.zeros((0, len(UNITS))),
            measures.of_states(record.states() for record in records),
        )

    @classmethod
    def joined(cls, parts: Sequence[Steps]) -> Steps:
        """The steps of all parts, one part behind the other; there is at least one."""
        query_ids = [query_id for part in parts for query_id in part.query_ids]
        columns = ([getattr(part, name) for part in parts] for name in ("counts", "costs", "values"))
        return cls(query_ids, *map(np.concatenate, columns))

    def of_queries(self, query_ids: Sequence[str]) -> Steps:
        """The steps of these queries, all of which are there, in their order."""
        if list(query_ids) == self.query_ids:
            return self
        chosen = places(query_ids, self.query_ids)
        counts = self.counts[chosen]
        rows = np.repeat(self.firsts[chosen] - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
        return Steps(list(query_ids), counts, self.costs[rows], self.values[rows])

    @property
    def firsts(self) -> IntArray:
        """The row of each query's first step, shape (q,)."""
        firsts: IntArray = np.cumsum(self.counts) - self.counts
        return firsts

    def at(self, docs: IntArray) -> IntArray:
        """The rows of the latest steps that each number of documents pays for, shape (q, len(docs))."""
        rows: IntArray = self.firsts[:, None] + latest(self.counts, self.costs[:, 0], docs)
        return rows


def places(query_ids: Sequence[str], found: Sequence[str]) -> IntArray:
    """Where each of these queries, shape (q,), is among those that were found, in any order."""
    place = {query_id: i for i, query_id in enumerate(found)}
    return np.fromiter(map(place.__getitem__, query_ids), np.intp, len(query_ids))


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
