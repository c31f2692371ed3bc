"""Replays each policy once to the end of its pool, and reads every budget off its anytime history (rule C4)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from experiments.advise.options import (
    CANDIDATES,
    FIXED,
    INTERPOLATED,
    TRUSTS,
    WEIGHTS,
    PolicyOption,
    budgets_up_to,
    fitting,
)
from experiments.config.compose import compose
from experiments.config.progress import Progress
from experiments.datasets.dataset import Dataset, Qrels
from experiments.evaluate.baselines import agreement, by_agreement
from experiments.evaluate.curves import FloatArray, latest
from experiments.evaluate.measures import Measures
from experiments.evaluate.rankings import together
from experiments.evaluate.record import UNITS, BaselineReplay, QueryRecord
from experiments.replay.build import Session, session_for
from experiments.replay.executors import executed
from experiments.replay.records import is_free, records_of
from experiments.report.prices import Work
from ragtune.core.errors import ConfigError
from ragtune.core.output import rankings_of
from ragtune.core.policy.defaults import AUTO, TRUST
from ragtune.core.pool.ordering import Ordering
from ragtune.estimators.interpolation import WEIGHT, interpolated
from ragtune.estimators.posterior.correlation import SourceCorrelation

SELF_CHOSEN = ("tracking=none", "budget=tight", "budget.max_reranker_docs=null")
"""Overrides of every replay: ``budget=20`` without its limit on documents."""

AGREEMENT = "agreement of the top 10"
"""The measure without judgments: the share of the top 10 that is the same once everything is scored."""

ENOUGH = 5
"""Queries of some quality that any advice needs: of fewer no spread can be seen."""

FOLDS = 10
"""Of the cross-validation of trust and weight, which needs as many judged queries."""

_POLICY_OPTIONS = ("estimator", "scheduler", "assembler", "budget", "tracking")


@dataclass(frozen=True)
class Setting:
    """A choice of an option's value: the trust, or the weight of the first stage."""

    value: float
    gain: float = math.nan  # mean over the default, on queries that had no part in the choice
    low: float = math.nan
    high: float = math.nan


@dataclass(frozen=True)
class PolicyCurve:
    """A policy at b budgets in documents, ascending; the last is the whole pool."""

    candidate: PolicyOption
    budgets: Sequence[int]  # documents, ascending; the last is the whole pool
    values: FloatArray  # shape (q, b, m)
    work: Work  # arrays of shape (q, b)
    start: float = math.nan  # mean of the headline at 0 documents, by the policy's own order


@dataclass(frozen=True)
class Replays:
    """All policies on one collection."""

    dataset: Dataset  # without judgments, with agreement in their place
    judged: bool
    measures: Sequence[str]  # the headline first; :data:`AGREEMENT` without judgments
    trust: Setting
    weight: Setting
    queries: Sequence[str]  # ids of those that count
    pool: int  # documents of the largest pool
    curves: Mapping[str, PolicyCurve]  # by the candidate's name; that of FIXED ends with reranking everything
    correlation: SourceCorrelation | None = None  # of the queries whose scores set the trust, without judgments

    @property
    def uncovered(self) -> int:
        """Queries for which the first stage has no candidates."""
        return int((self.curves[FIXED].work.docs[:, -1] == 0).sum())


def require_queries(count: int, *, judged: bool) -> None:
    """Refuse fewer queries than any advice needs, before they are scored or replayed."""
    if count < ENOUGH:
        raise ConfigError(
            f"nothing can be advised yet: the collection has {counted_queries(count, judged)}; at least {ENOUGH} are "
            f"needed, {ENOUGH - count} more"
        )


def counted_queries(count: int, judged: bool) -> str:
    """A number of queries in words."""
    return f"{count} {'judged ' if judged else ''}{'query' if count == 1 else 'queries'}"


@dataclass(frozen=True)
class _Job:
    candidate: PolicyOption
    config: Mapping[str, Any]
    queries: Sequence[str]
    budgets: Sequence[int]
    measures: Sequence[str]
    qrels: Qrels


def configuration(config: Mapping[str, Any], candidate: PolicyOption) -> dict[str, Any]:
    """A user's configuration with a policy in place of its own, and no limit on documents."""
    chosen = compose([*SELF_CHOSEN, *candidate.replayed])
    return {**config, **{group: chosen[group] for group in _POLICY_OPTIONS}}


def replay_all(
    config: Mapping[str, Any],
    measures: Sequence[str],
    processes: int,
    progress: Progress,
    candidates: Sequence[PolicyOption] = CANDIDATES,
    trusts: Sequence[float] = TRUSTS,
    weights: Sequence[float] = WEIGHTS,
) -> Replays:
    """Replay every policy, fixed depth first, over a collection with recorded scores; -1 ``processes``: one a core.

    Of several trusts and weights, judgments choose; without any, the reranker's agreement with the first stage sets the
    trust. A single one is taken.
    """
    fixed = candidates[0]
    progress(0, len(candidates))
    base = configuration(config, fixed)
    session = session_for(base)
    if not is_free(session):
        raise ConfigError("the scores must be recorded and rewriting must be free: a replay asks again and again")
    queries = session.dataset.judged
    judged = bool(session.dataset.qrels)
    require_queries(len(queries), judged=judged)
    everything, by_weight = _read_in_full(session, queries, weights if judged else ())
    if judged:
        dataset, meter = session.dataset, Measures(measures, session.dataset.qrels)
    else:
        dataset, meter = by_agreement(session.dataset, map(BaselineReplay.of, everything))
    queries = dataset.judged
    everything = [record for record in everything if dataset.counts(record.query_id)]
    pool = max(int(record.charged[0]) for record in everything)
    budgets = budgets_up_to(pool)
    curves = {FIXED: _curve(fixed, everything, [0, *budgets], meter)}
    progress(1, len(candidates))

    def job(one: PolicyOption, qrels: Qrels) -> _Job:
        measured = meter.names if judged else []
        return _Job(one, configuration(config, one), queries, fitting(one.batch, budgets), measured, qrels)

    known = {
        option: _curve(option, records, budgets, meter)
        for weight, records in by_weight.items()
        for option in (one.fitted(weight, weight) for one in candidates if one.policy == INTERPOLATED)
    }

    def fit(policy: str, name: str, values: Sequence[float], default: float) -> Setting:
        one = next((one for one in candidates if one.policy == policy), None)
        if one is None or not judged or len(values) == 1:
            return Setting(values[0] if len(values) == 1 else default)
        options = [one.fitted(x, x) for x in values]
        jobs = [job(each, dataset.qrels) for each in options if each not in known]
        known.update((curve.candidate, curve) for curve in executed(_replayed, jobs, processes))
        means = {getattr(each, name): known[each].values[:, :, 0].mean(axis=1) for each in options}
        level, seed = config["bootstrap"]["level"], config["seed"]
        return choose_setting({x: means[x] for x in values}, default, level=level, seed=seed)

    correlation = None if judged or len(trusts) == 1 else _correlation(config, candidates)
    trust = fit("uncertainty", "trust", trusts, TRUST) if correlation is None else Setting(correlation.trust)
    weight = fit(INTERPOLATED, "weight", weights, WEIGHT)
    blended = dict.fromkeys((one.blend for one in candidates), dataset.qrels)
    if not judged:
        # A blend of both orders never is the reranker's own: its target is what it shows once everything is scored.
        for one in candidates[1:]:
            if blended[one.blend] is dataset.qrels and one.blend != fixed.blend:
                records = _records(session_for(configuration(config, one)), queries)
                blended[one.blend] = by_agreement(session.dataset, map(BaselineReplay.of, records))[0].qrels
    chosen = [one.fitted(trust.value, weight.value) for one in candidates[1:]]
    curves |= {one.name: known[one] for one in chosen if one in known}
    jobs = [job(one, blended[one.blend]) for one in chosen if one not in known]
    for done, curve in enumerate(executed(_replayed, jobs, processes), start=len(curves) + 1):
        curves[curve.candidate.name] = curve
        progress(done, len(candidates))
    ordered = {candidate.name: curves[candidate.name] for candidate in candidates}
    shown = meter.names if judged else [AGREEMENT]
    return Replays(dataset, judged, shown, trust, weight, queries, pool, ordered, correlation)


def _correlation(config: Mapping[str, Any], candidates: Sequence[PolicyOption]) -> SourceCorrelation | None:
    """What ``estimator.trust=auto`` finds; None where no policy has a trust."""
    trusting = next((one for one in candidates if one.trust is not None), None)
    if trusting is None:
        return None
    asked = configuration(config, trusting)
    found = session_for({**asked, "estimator": {**asked["estimator"], "trust": AUTO}}).first_pass
    return found and found.correlation


def choose_setting(values: Mapping[float, FloatArray], default: float, *, level: float, seed: int) -> Setting:
    """The setting whose ``values``, shape (q,), have the best mean; the default if cross-validation shows no gain."""
    from scipy.special import stdtrit  # scipy.stats takes half a second to import

    settings, table = list(values), np.stack(list(values.values()), axis=1)
    n, usual = len(table), settings.index(default)
    if n < FOLDS:
        return Setting(default)
    gains = np.empty(n)
    for fold in np.array_split(np.random.default_rng(seed).permutation(n), FOLDS):
        rest = np.setdiff1d(np.arange(n), fold)
        gains[fold] = table[fold, _best(table[rest], usual)] - table[fold, usual]
    mean = float(gains.mean())
    half = float(stdtrit(n - 1, 0.5 + level / 2.0)) * float(gains.std(ddof=1)) / math.sqrt(n)
    return Setting(settings[_best(table, usual)] if mean > 0.0 else default, mean, mean - half, mean + half)


def _best(table: FloatArray, default: int) -> int:
    """The column with the best mean; the default where none is better."""
    means = np.round(table.mean(axis=0), 12)
    return int(np.argmax(means)) if means.max() > means[default] else default


def _read_in_full(
    session: Session, queries: Sequence[str], weights: Sequence[float]
) -> tuple[list[QueryRecord], dict[float, list[QueryRecord]]]:
    """The records of fixed depth, and by weight those of interpolated fixed depth: it reads the same, ranked anew."""
    everything: list[QueryRecord] = []
    by_weight: dict[float, list[QueryRecord]] = {weight: [] for weight in weights}
    for query_id in queries:
        output = session.controller.run(session.dataset.queries[query_id], query_id=query_id)
        everything.append(record := QueryRecord.of(output, traced=False))
        for weight, records in by_weight.items():
            steps = []
            for step in output.history:
                keys = interpolated(step.columns.priorities, step.columns.scores, weight)
                steps.append(replace(step, columns=step.columns._replace(posteriors=keys), ordering=Ordering.POSTERIOR))
            records.append(replace(record, rankings=together(rankings_of(steps), len(record.doc_ids))))
    return everything, by_weight


def _replayed(job: _Job) -> PolicyCurve:
    session = session_for(job.config)
    measures = Measures(job.measures, job.qrels) if job.measures else agreement(job.qrels)
    return _curve(job.candidate, _records(session, job.queries), job.budgets, measures)


def _records(session: Session, queries: Sequence[str]) -> list[QueryRecord]:
    return list(records_of(session, queries, traced=False))


def _curve(
    candidate: PolicyOption, records: Sequence[QueryRecord], budgets: Sequence[int], measures: Measures
) -> PolicyCurve:
    counts = np.array([len(record.costs) for record in records])
    states = latest(counts, np.array([step[0] for record in records for step in record.costs]), np.array(budgets))
    costs = np.array([np.array(r.costs, dtype=float)[states[i]] for i, r in enumerate(records)])
    spent = {unit: costs[:, :, UNITS.index(unit)].astype(np.int64) for unit in ("docs", "calls", "tokens")}
    if candidate.batch is None:
        spent["calls"] = (spent["docs"] > 0).astype(np.int64)
    largest = np.minimum(spent["docs"], candidate.batch or spent["docs"])
    values = _measured(records, np.column_stack([np.zeros(len(records), dtype=np.intp), states]), measures)
    start = float(values[:, 0, 0].mean())
    return PolicyCurve(candidate, budgets, values[:, 1:], Work(**spent, largest=largest), start)


def _measured(records: Sequence[QueryRecord], states: Any, measures: Measures) -> FloatArray:
    """Measures of the wanted states, each state of a query once."""
    wanted = [sorted(set(steps.tolist())) for steps in states]
    row = {state: at for at, state in enumerate((i, step) for i, steps in enumerate(wanted) for step in steps)}
    values = measures.of_states(record.states(steps) for record, steps in zip(records, wanted, strict=True))
    return values[[[row[i, step] for step in states[i].tolist()] for i in range(len(records))]]
