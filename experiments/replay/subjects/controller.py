"""The budgeted controller as a subject, the one of ``run.py``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from experiments.config.compose import results_key
from experiments.config.names import policy_name
from experiments.datasets.dataset import Dataset
from experiments.evaluate.record import QueryRecord, Ranked
from experiments.replay.build import NO_PARTS, Session, controller_of, session_for
from experiments.replay.fixed_order import QueryReplay, has_fixed_order
from experiments.replay.subjects.subject import Subject
from ragtune.assemblers.greedy import GreedyAssembler
from ragtune.core.errors import ScoreTableError
from ragtune.core.interfaces import BaseReformulator, BaseReranker
from ragtune.core.pool.ordering import Ordering
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.limits import LIMITS
from ragtune.core.request.request import Request
from ragtune.estimators.baseline import BaselineEstimator
from ragtune.expanders.none import NoExpander
from ragtune.schedulers.one_shot import OneShotScheduler

_FIXED_DEPTH = {
    "expander": NoExpander(),
    "estimator": BaselineEstimator(),
    "scheduler": OneShotScheduler(),
    "assembler": GreedyAssembler(Ordering.RERANKED_FIRST),
}
"""The parts of ``conf/experiment/fixed_depth.yaml``, whatever the run's own policy expands."""

_FOR_EVERYTHING = dict.fromkeys((*LIMITS.values(), "assembly_token_buffer"))
"""The limits that reranking everything is freed of; the pool is the run's own."""

_KEPT_DOCS = 200_000
"""Candidates that are kept for the next jobs: some half a kilobyte each."""

_KEPT = 3
_replays: dict[str, list[Ranked]] = {}
"""The latest replays of incumbents in this process: the jobs of a sweep often differ by their policy alone."""


class ControllerSubject(Subject):
    """Replays each query as one request of the controller: retrieval rounds, rerank loop, assembly."""

    def open(self, config_json: str) -> Dataset:
        session = session_for(config_json)
        session.controller.forget_failures()
        return session.dataset

    def replay_shard(self, config_json: str, query_ids: Sequence[str]) -> list[QueryRecord]:
        session = session_for(config_json)
        if len(query_ids) > 1 and _gains_by_lockstep(session):
            requests = (Request(session.dataset.queries[query_id], query_id) for query_id in query_ids)
            return [QueryRecord.of(output) for output in session.controller.run_many(requests)]
        return [_replay_of(session, query_id).under(session.parts["budget"]) for query_id in query_ids]

    def incumbents(self, config: Mapping[str, Any], query_ids: Sequence[str]) -> dict[str, list[Ranked]]:
        session = session_for(results_key(config))
        if not is_free(session):
            return {}
        budget: CostBudget = session.parts["budget"]
        budgets = {"fixed depth": budget, "everything": budget.model_copy(update=_FOR_EVERYTHING)}
        same = results_key({key: value for key, value in config.items() if key not in (*_FIXED_DEPTH, *NO_PARTS)})
        keys = {name: json.dumps([same, each.model_dump(), *query_ids]) for name, each in budgets.items()}
        known = {key: _replays[key] for key in keys.values() if key in _replays}
        new = {key: budgets[name] for name, key in keys.items() if key not in known}
        for key, records in _fixed_depth(config, session, new, query_ids).items():
            known[key] = _remembered(key, records)
        return {name: known[key] for name, key in keys.items() if key in known}

    def label(self, config: Mapping[str, Any]) -> str:
        return policy_name(config)

    def forecast(self, config: Mapping[str, Any], progress: Callable[[int, int], None]) -> dict[str, Any]:
        from experiments.replay.forecast import forecast

        return forecast(config, progress)


def is_free(session: Session) -> bool:
    """Whether asking again costs nothing: scores are recorded, and no model rewrites the queries."""
    reformulator = session.parts["reformulator"]
    asks_nobody = type(reformulator).expected_cost is BaseReformulator.expected_cost
    return asks_nobody and all(reranker.is_recorded for reranker in session.rerankers.values())


def _gains_by_lockstep(session: Session) -> bool:
    """Whether a reranker scores the batches of many queries in one call. Under a limit on time it takes each of them as
    long as all, which would change what they may spend.
    """
    together = any(type(each).rerank_many is not BaseReranker.rerank_many for each in session.rerankers.values())
    budget: CostBudget = session.parts["budget"]
    return together and budget.max_latency_ms is None


def _fixed_depth(
    config: Mapping[str, Any], session: Session, budgets: Mapping[str, CostBudget], query_ids: Sequence[str]
) -> dict[str, list[Ranked]]:
    """Replays under each budget that the score table can answer: it need only hold what the policy itself asks for."""
    parts = {**session.parts, **_FIXED_DEPTH}
    fixed = replace(session, parts=parts, controller=controller_of(config, parts, session.rerankers))
    records: dict[str, list[Ranked]] = {name: [] for name in budgets}
    for query_id in query_ids if budgets else ():
        query = _replay_of(fixed, query_id, "fixed depth")
        for name in list(records):
            try:
                records[name].append(query.ranked_under(budgets[name]))
            except ScoreTableError:
                del records[name]
    return records


def _replay_of(session: Session, query_id: str, policy: str = "own") -> QueryReplay:
    """The query through the session's policy; the one of an earlier job where no score changes what is asked for."""
    kept, key = session.kept, (policy, query_id)
    if kept is None or not has_fixed_order(session, session.parts["budget"]):
        return QueryReplay(session, query_id)
    if key not in kept:
        if (len(kept) + 1) * session.controller.rounds.plan.original_query_depth > _KEPT_DOCS:
            return QueryReplay(session, query_id)
        kept[key] = QueryReplay(session, query_id)
    found: QueryReplay = kept[key]
    return found


def _remembered(key: str, records: list[Ranked]) -> list[Ranked]:
    """The records, kept for later jobs of this sweep."""
    for oldest in list(_replays)[: 1 - _KEPT]:
        del _replays[oldest]
    _replays[key] = records
    return records
