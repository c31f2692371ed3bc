"""Measures a run's queries as they are finished, beside its baselines: two of fixed depth, and full reranking."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from experiments.datasets.dataset import Dataset, Qrels
from experiments.evaluate.curves import Curve, Steps, at_depths
from experiments.evaluate.files import Rows
from experiments.evaluate.measures import Measures
from experiments.evaluate.outcomes import Outcomes, QueryOutcome
from experiments.evaluate.rankings import States
from experiments.evaluate.record import BaselineReplay, QueryRecord
from experiments.evaluate.significance import Bootstrap, holm, randomization_test
from experiments.evaluate.summary import Agreement, Comparison
from ragtune.core.arrays import FloatArray, IntArray
from ragtune.core.errors import ConfigError
from ragtune.core.statistics import RankPlaces

FIXED_DEPTH, INTERPOLATED, FULL = "fixed depth", "interpolated fixed depth", "full reranking"
"""The baselines: the first stage's best documents that a run's budget affords, by their scores and by both scores, and
the whole pool."""

Beaten = Callable[[Sequence[str]], Mapping[str, Sequence[BaselineReplay]]]
"""Replays queries through what a run has to beat: by the name of the baseline, in the order of the queries. One that
cannot answer some of them is left out from then on."""

TOGETHER = 512
"""Queries whose records or replays are held until they are measured: fewer take longer, more take much memory."""


@dataclass(frozen=True, eq=False)
class ComparedQueries:
    """How some queries of a run stand beside the same queries of one baseline, as columns."""

    values: FloatArray  # shape (q, m), measures of the baseline's final rankings
    docs: IntArray  # shape (q,), documents that the baseline was charged
    alike: FloatArray  # shape (q, 3): overlap, rank-biased overlap, and tau, NaN where the run lacks a document

    @classmethod
    def joined(cls, parts: Sequence[ComparedQueries]) -> ComparedQueries:
        """Several groups of queries, of which there is at least one, in their order."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in vars(parts[0])))


def compare_queries(
    records: Sequence[QueryRecord], baselines: Mapping[str, Sequence[BaselineReplay]], measures: Measures
) -> dict[str, ComparedQueries]:
    """Queries of a run beside each baseline's replays of the same queries, in the same order."""
    states = (each for found in zip(*baselines.values(), strict=True) for each in _states(found))
    values = measures.of_states(states).reshape(len(records), len(baselines), len(measures.names))
    return {
        name: ComparedQueries(values[:, i], np.array([each.docs for each in ranked]), _alike(records, ranked))
        for i, (name, ranked) in enumerate(baselines.items())
    }


def compare(run: Curve, compared: Mapping[str, ComparedQueries], bootstrap: Bootstrap) -> dict[str, Comparison]:
    """Compare a run with its baselines on the judged queries."""
    if not compared:
        return {}
    own, names = run.per_query[:, -1, :], run.measures
    theirs = {name: np.ascontiguousarray(beside.values) for name, beside in compared.items()}
    flat = np.concatenate([own - values for values in theirs.values()], axis=1)
    low, high = bootstrap.interval(flat)
    tested = randomization_test(flat, permutations=bootstrap.resamples, seed=bootstrap.seed)
    shape = len(theirs), len(names)
    mean, low, high, p = (part.reshape(shape) for part in (flat.mean(axis=0), low, high, tested))
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
        for i, (name, beside) in enumerate(compared.items())
    }


def _states(found: Sequence[BaselineReplay]) -> list[States]:
    """How the baselines have ranked a query, in as few pools as there are: its documents are graded once a pool."""
    first = found[0]
    if all(ranked.doc_ids == first.doc_ids for ranked in found):
        return [States(first.query_id, first.doc_ids, np.stack([ranked.final for ranked in found]))]
    return [States(ranked.query_id, ranked.doc_ids, ranked.final[None]) for ranked in found]


def in_full(beaten: Beaten, query_ids: Sequence[str]) -> Iterator[BaselineReplay]:
    """Replays of reranking everything, made a few hundred at a time."""
    for start in range(0, len(query_ids), TOGETHER):
        found = beaten(query_ids[start : start + TOGETHER]).get(FULL)
        if found is None:
            raise ConfigError(
                "dataset.split=null: without judgments a run is measured by its agreement with full reranking, "
                "so the scores of all candidates must be recorded: reranker=replay, with a table of ragtune score"
            )
        yield from found


def by_agreement(dataset: Dataset, everything: Iterable[BaselineReplay]) -> tuple[Dataset, Measures]:
    """A collection without judgments, for which the first 10 of full reranking stand in, and the measure by them."""
    graded = {r.query_id: dict.fromkeys(r.ranking[:10], 1) for r in everything if r.doc_ids}
    stands_in = "queries without judgments, for which the top 10 of full reranking stands in"
    warnings = {**dataset.warnings, stands_in: len(graded)}
    return replace(dataset, qrels=graded, warnings=warnings), agreement(graded)


def agreement(top: Qrels) -> Measures:
    """Measures the share of a few documents of each query, at most 10, that are among the first 10 of a ranking."""
    return Measures(["R@10"], top, shown=[AGREEMENT])


AGREEMENT = "agreement"


def depth_line(everything: Iterable[Sequence[BaselineReplay]], run: Curve, measures: Measures) -> dict[int, float]:
    """The mean headline of fixed depth with the same numbers of documents as a run, from replays of full reranking."""
    values = []
    for some in everything:
        states = (States(each.query_id, each.doc_ids, at_depths(each, run.docs)) for each in some)
        values.append(measures.headline_of(states).reshape(len(some), len(run.docs)))
    return dict(zip(run.docs.tolist(), np.concatenate(values).mean(axis=0).tolist(), strict=True))


def _alike(records: Sequence[QueryRecord], others: Sequence[BaselineReplay]) -> FloatArray:
    alike = RankPlaces.of(map(_comparable, records, others), k=10)
    pairs = zip(records, others, strict=True)
    holds = [set(other.ranking) <= set(record.ranking) for record, other in pairs]  # an expander may look elsewhere
    tau = np.where(holds, alike.kendall_tau(), np.nan)
    return np.stack([alike.overlap(), alike.rank_biased_overlap(p=0.9), tau], axis=1)


def _agreement(alike: FloatArray) -> Agreement:
    overlap, rbo, tau = (float(np.mean(np.ascontiguousarray(column))) for column in alike.T)
    return Agreement(overlap=overlap, rbo=rbo, tau=None if np.isnan(tau) else tau)


def _comparable(record: QueryRecord, other: BaselineReplay) -> tuple[Sequence[Hashable], Sequence[Hashable]]:
    """Both rankings in the same terms: as positions, which are quicker to look up than ids, where the pool is one."""
    if record.doc_ids == other.doc_ids:
        return record.final.tolist(), other.final.tolist()
    return record.ranking, other.ranking


class Evaluation:
    """Measures finished queries beside the baselines, and keeps columns of figures."""

    def __init__(
        self, dataset: Dataset, measures: Measures, beaten: Beaten, folder: Path, *, fixed_depth: bool = False
    ) -> None:
        self._dataset, self._measures, self._beaten = dataset, measures, beaten
        self._folder, self._fixed_depth = folder, fixed_depth
        self._waiting: list[QueryRecord] = []
        self._outcomes = Outcomes()
        self._steps: dict[str, Rows] = {}
        self._compared: dict[str, list[ComparedQueries]] | None = None
        self._everything: list[Sequence[BaselineReplay]] = []

    def add(self, record: QueryRecord) -> None:
        """Take a finished query, in replay order. Of unjudged queries, only the outcome counts."""
        self._waiting.append(record)
        if len(self._waiting) >= TOGETHER:
            self._conclude()

    def outcomes(self) -> Outcomes:
        self._conclude()
        return self._outcomes

    def steps(self) -> Steps:
        self._conclude()
        return Steps(**{name: rows.whole() for name, rows in self._steps.items()})

    def compared(self) -> dict[str, ComparedQueries]:
        """The judged queries beside each baseline that could answer all of them."""
        self._conclude()
        return {name: ComparedQueries.joined(parts) for name, parts in (self._compared or {}).items()}

    def depth_line(self, run: Curve) -> dict[int, float] | None:
        """What fixed depth reaches with the same documents; None where full reranking lacks scores."""
        self._conclude()
        if FULL not in (self._compared or {}):
            return None
        return depth_line(self._everything, run, self._measures)

    def _conclude(self) -> None:
        records, self._waiting = self._waiting, []
        self._outcomes.extend(map(QueryOutcome.of, records))
        judged = [record for record in records if self._dataset.counts(record.query_id)]
        if not judged:
            return
        steps = Steps.of(judged, self._measures, fixed_depth=self._fixed_depth)
        for name, column in vars(steps).items():
            self._steps.setdefault(name, Rows(self._folder)).extend(column)
        found = self._beaten([record.query_id for record in judged])
        if everything := found.get(FULL):
            self._everything.append(everything)
        beside = compare_queries(judged, found, self._measures)
        if self._compared is None:
            self._compared = {name: [] for name in beside}
        self._compared = {name: [*parts, beside[name]] for name, parts in self._compared.items() if name in beside}
