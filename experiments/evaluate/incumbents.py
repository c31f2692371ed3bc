"""What a run has to beat, beside it: fixed depth under the same budget, and reranking everything."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from experiments.datasets.dataset import Dataset
from experiments.evaluate.curves import Bootstrap, Curve
from experiments.evaluate.depths import at_depths
from experiments.evaluate.measures import Measures
from experiments.evaluate.record import QueryRecord, Ranked
from experiments.evaluate.rows import Rows, blocks, taken
from experiments.evaluate.significance import holm, randomization_test
from experiments.evaluate.states import States
from experiments.evaluate.summary import Agreement, Comparison
from ragtune.core.arrays import FloatArray, IntArray
from ragtune.core.errors import ConfigError
from ragtune.facade.agreement import Places

FIXED_DEPTH, EVERYTHING = "fixed depth", "everything"
"""The incumbents: the first stage's best documents, as many as a run's budget affords, and the whole pool."""

Beaten = Callable[[Sequence[str]], Mapping[str, Sequence[Ranked]]]
"""Replays queries through what a run has to beat: by the name of the incumbent, in the order of the queries. One that
cannot answer some of them is left out from then on."""

TOGETHER = 512
"""Queries whose records or replays are held until they are measured: fewer take longer, more take much memory."""


@dataclass(frozen=True, eq=False)
class Faced:
    """How some queries of a run stand beside the same queries of one incumbent, as columns.

    Attributes:
        values: shape (q, m), measures of the incumbent's final rankings.
        docs: shape (q,), documents that the incumbent was charged.
        alike: shape (q, 3), of both rankings: overlap, rank-biased overlap, and Kendall's tau, which is not a number
            where the run lacks a document that the incumbent has.
    """

    values: FloatArray
    docs: IntArray
    alike: FloatArray

    def taken(self, queries: IntArray, folder: Path | None) -> Faced:
        """The queries at some places, in their order; a folder may hold large columns."""
        return Faced(*(taken(column, queries, folder) for column in (self.values, self.docs, self.alike)))


def face(
    records: Sequence[QueryRecord], incumbents: Mapping[str, Sequence[Ranked]], measures: Measures
) -> dict[str, Faced]:
    """Queries of a run beside each incumbent's replays of the same queries, in the same order.

    Args:
        records: of the run.
        incumbents: replays by the name of the incumbent.
        measures: what is measured.
    """
    states = (each for found in zip(*incumbents.values(), strict=True) for each in _states(found))
    values = measures.of_states(states).reshape(len(records), len(incumbents), len(measures.names))
    return {
        name: Faced(values[:, i], np.array([each.docs for each in ranked]), _alike(records, ranked))
        for i, (name, ranked) in enumerate(incumbents.items())
    }


def compare(
    run: Curve, faced: Mapping[str, Faced], bootstrap: Bootstrap, folder: Path | None = None
) -> dict[str, Comparison]:
    """Compare a run with its incumbents on the judged queries.

    Args:
        run: the run's curve, whose last step is compared.
        faced: the same queries, in the same order, beside each incumbent, by its name.
        bootstrap: of the intervals; the test takes as many random sign vectors, and the same seed.
        folder: may hold the differences of many queries.

    Returns:
        A comparison an incumbent, with the p-values of Fisher's randomization test, corrected by Holm's method too.
    """
    if not faced:
        return {}
    own, names = run.per_query[:, -1, :], run.measures
    theirs = {name: np.ascontiguousarray(beside.values) for name, beside in faced.items()}
    flat = _differences(own, list(theirs.values()), folder)
    interval = bootstrap.interval(flat)
    tested = randomization_test(flat, permutations=bootstrap.resamples, seed=bootstrap.seed)
    shape = len(theirs), len(names)
    mean, low, high, p = (part.reshape(shape) for part in (flat.mean(axis=0), interval.low, interval.high, tested))
    corrected = np.stack([holm(column) for column in p.T], axis=1)
    return {
        name: Comparison(
            docs_per_query=float(np.mean(beside.docs)),
            measures=dict(zip(names, theirs[name].mean(axis=0).tolist(), strict=True)),
            difference=dict(zip(names, mean[i].tolist(), strict=True)),
            interval=dict(zip(names, zip(low[i].tolist(), high[i].tolist(), strict=True), strict=True)),
            p=dict(zip(names, p[i].tolist(), strict=True)),
            p_holm=dict(zip(names, corrected[i].tolist(), strict=True)),
            agreement=_agreement(beside.alike),
        )
        for i, (name, beside) in enumerate(faced.items())
    }


def _differences(own: FloatArray, theirs: Sequence[FloatArray], folder: Path | None) -> FloatArray:
    """What the run has above each incumbent, shape (q, incumbents * m), which a folder may hold."""
    rows = Rows(folder)
    for some in blocks(len(own)):
        rows.extend(np.concatenate([own[some] - values[some] for values in theirs], axis=1))
    return rows.whole()


def _states(found: Sequence[Ranked]) -> list[States]:
    """How the incumbents have ranked a query, in as few pools as there are: its documents are graded once a pool."""
    first = found[0]
    if all(ranked.doc_ids == first.doc_ids for ranked in found):
        return [States(first.query_id, first.doc_ids, np.stack([ranked.final for ranked in found]))]
    return [States(ranked.query_id, ranked.doc_ids, ranked.final[None]) for ranked in found]


def in_full(beaten: Beaten, query_ids: Sequence[str]) -> Iterator[Ranked]:
    """Replays of reranking everything, made a few hundred at a time.

    Raises:
        ConfigError: if that would cost something.
    """
    for start in range(0, len(query_ids), TOGETHER):
        found = beaten(query_ids[start : start + TOGETHER]).get(EVERYTHING)
        if found is None:
            raise ConfigError(
                "dataset.split=null: without judgments a run is measured by its agreement with reranking everything, "
                "so the scores of all candidates must be recorded: reranker=replay, with a table of ragtune score"
            )
        yield from found


def by_agreement(dataset: Dataset, everything: Iterable[Ranked]) -> tuple[Dataset, Measures]:
    """A collection that nobody has judged with what stands in for judgments, and the measures of that.

    The first 10 of reranking everything are graded 10 to 1. ``P@10`` is then the overlap of the top 10 with those, and
    ``Compat(p=0.9)`` the rank-biased overlap (Clarke, Vtyurina and Smucker, TOIS 2021).

    Args:
        dataset: the collection, without judgments.
        everything: replays of reranking everything, in the order of the queries.
    """
    graded = {r.query_id: {d: 10 - i for i, d in enumerate(r.ranking[:10])} for r in everything if r.doc_ids}
    standing_in = replace(dataset, qrels=graded, warnings={**dataset.warnings, _STANDS_IN: len(graded)})
    return standing_in, Measures(AGREEMENT, graded)


AGREEMENT = ("P@10", "Compat(p=0.9)", "nDCG@10")
"""What is measured without judgments."""

_STANDS_IN = "queries without judgments, for which the top 10 of reranking everything stands in"


def depth_line(
    everything: Iterable[Sequence[Ranked]],
    run: Curve,
    measures: Measures,
    order: IntArray | None = None,
    folder: Path | None = None,
) -> dict[int, float]:
    """What fixed depth reaches with as many documents as a run, told by one replay that has reranked everything.

    Args:
        everything: the replays of all queries, some at a time, in any order; at least one.
        run: a run's curve, whose steps are the depths.
        measures: what is measured; the first is the headline.
        order: places of the replays' queries in the order in which means are taken; None for their own.
        folder: may hold the values of many queries.

    Returns:
        Mean headline by depth.
    """
    rows = Rows(folder)
    for some in everything:
        states = (States(each.query_id, each.doc_ids, at_depths(each, run.docs)) for each in some)
        rows.extend(measures.headline_of(states).reshape(len(some), len(run.docs)))
    values = rows.whole()
    if order is not None:
        values = taken(values, order, folder)
    return dict(zip(run.docs.tolist(), values.mean(axis=0).tolist(), strict=True))


def _alike(records: Sequence[QueryRecord], others: Sequence[Ranked]) -> FloatArray:
    """The columns of :attr:`Faced.alike`."""
    alike = Places.of(map(_comparable, records, others), k=10)
    holds = np.fromiter(map(_holds, records, others), bool, len(records))  # an expander may let the run look elsewhere
    tau = np.where(holds, alike.kendall_tau(), np.nan)
    return np.stack([alike.overlap(), alike.rank_biased_overlap(p=0.9), tau], axis=1)


def _agreement(alike: FloatArray) -> Agreement:
    overlap, rbo, tau = (float(np.mean(np.ascontiguousarray(column))) for column in alike.T)
    return Agreement(overlap=overlap, rbo=rbo, tau=None if np.isnan(tau) else tau)


def _holds(record: QueryRecord, other: Ranked) -> bool:
    """Whether the run has ranked all that the other has."""
    if len(record.final) == len(record.doc_ids) and record.doc_ids == other.doc_ids:
        return True
    return set(other.ranking) <= set(record.ranking)


def _comparable(record: QueryRecord, other: Ranked) -> tuple[Sequence[Hashable], Sequence[Hashable]]:
    """Both rankings in the same terms: as positions, which are quicker to look up than ids, where the pool is one."""
    if record.doc_ids == other.doc_ids:
        return record.final.tolist(), other.final.tolist()
    return record.ranking, other.ranking
