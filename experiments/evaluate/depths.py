"""Fixed depth at every depth: what it ranks, and what it has cost, after each document of its one batch."""

from __future__ import annotations

import numpy as np

from experiments.evaluate.record import UNITS, QueryRecord, Ranked
from experiments.evaluate.states import Positions, States, after_each
from ragtune.core.arrays import FloatArray, IntArray

_DOCS, _CALLS = UNITS.index("docs"), UNITS.index("calls")


def at_depths(ranked: Ranked, depths: IntArray) -> Positions:
    """Rankings of fixed depth's documents at each depth, shape (depths, n).

    At depth d the first d of the first stage stand in the order of their scores, and the rest behind them as they were.
    Documents that a failed call has put out are last.

    Args:
        ranked: fixed depth at the largest of the depths, or deeper.
        depths: numbers of documents.
    """
    best = ranked.final
    if len(best) < len(ranked.first):
        best = np.concatenate([best, ranked.first[np.isin(ranked.first, best, invert=True)]])
    return after_each(depths, ranked.first, best, ranked.first)


def states_at_every_depth(record: QueryRecord) -> States:
    """The rankings of a query of fixed depth after 0, 1, ... documents; the last one is the record's own."""
    ranked = Ranked.of(record)
    if not ranked.docs:
        return record.states([len(record.costs) - 1])
    rankings = list(at_depths(ranked, np.arange(ranked.docs)))
    return States(record.query_id, record.doc_ids, [*rankings, ranked.final])


def costs_at_every_depth(record: QueryRecord) -> FloatArray:
    """What has been charged by then, shape (documents + 1, u).

    Calls are booked with their first document. The documents of a call share its other costs equally.
    """
    costs = np.array(record.costs, dtype=float)
    docs = costs[:, _DOCS]
    depths = np.arange(docs[-1] + 1)
    if len(depths) == 1:
        return costs[-1:]
    spread = np.stack([np.interp(depths, docs, column) for column in costs.T], axis=1)
    spread[:, _CALLS] = costs[np.searchsorted(docs, depths), _CALLS]
    spread[-1] = costs[-1]
    return spread
