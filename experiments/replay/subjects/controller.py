"""The budgeted controller as a subject, the one of ``run.py``."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from experiments.config.compose import results_key
from experiments.config.names import policy_name
from experiments.datasets.dataset import Dataset
from experiments.evaluate.incumbents import EVERYTHING, FIXED_DEPTH
from experiments.evaluate.record import QueryRecord, Ranked
from experiments.replay.build import NO_PARTS, Session, controller_of
from experiments.replay.fixed_order import has_fixed_order
from experiments.replay.keptrecords import KeptRecords
from experiments.replay.sessions import session_for
from experiments.replay.shard import KeptReplays, ShardReplay, at_once, in_shards
from experiments.replay.subjects.subject import Incumbents, Subject
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

_FIXED_PARTS = {
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
_replays: dict[str, dict[str, Ranked]] = {}
"""The latest replays of incumbents in this process, by query: jobs of a sweep often differ by their policy alone."""


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
        if (kept := _kept_records(session)) is not None:
            return [kept.of(session, query_id) for query_id in query_ids]
        replays = (_replay_of(session, some) for some in in_shards(session, query_ids))
        return [record for replay in replays for record in replay.under(session.parts["budget"])]

    def at_once(self, config_json: str) -> int:
        session = session_for(config_json)
        if _gains_by_lockstep(session) or not has_fixed_order(session, session.parts["budget"]):
            return 1
        return at_once(session)

    def is_fixed_depth(self, config: Mapping[str, Any]) -> bool:
        parts = session_for(results_key(config)).parts
        return (
            all(type(parts[group]) is type(_FIXED_PARTS[group]) for group in ("estimator", "scheduler"))
            and (parts["expander"] is None or not parts["expander"].is_active)
            and parts["assembler"].ordering is not Ordering.FINAL_SCORE  # the others put the rest behind
        )

    def incumbents(self, config: Mapping[str, Any]) -> Incumbents:
        session = session_for(results_key(config))
        return FixedDepth(config, session) if is_free(session) else Incumbents()

    def label(self, config: Mapping[str, Any]) -> str:
        return policy_name(config)

    def compares_apart(self, config: Mapping[str, Any]) -> bool:
        return session_for(results_key(config)).compares_apart

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


class FixedDepth(Incumbents):
    """Fixed depth under the run's budget, and without a limit: reranking everything.

    An incumbent is left out once the score table lacks what it asks for: it need only hold what the policy asks for.

    Args:
        config: of the run, plain data.
        session: the run's.
    """

    def __init__(self, config: Mapping[str, Any], session: Session) -> None:
        budget: CostBudget = session.parts["budget"]
        self._budgets = {FIXED_DEPTH: budget, EVERYTHING: budget.model_copy(update=_FOR_EVERYTHING)}
        same = results_key({key: value for key, value in config.items() if key not in (*_FIXED_PARTS, *NO_PARTS)})
        self._known = {name: _remembered(json.dumps([same, b.model_dump()])) for name, b in self._budgets.items()}
        begins_alike = has_fixed_order(session, budget)
        self._session, self._policy = session, "own"
        if not all(_are_alike(session.parts[group], part) for group, part in _FIXED_PARTS.items()):
            parts = {**session.parts, **_FIXED_PARTS}
            controller = controller_of(config, parts, session.rerankers)
            self._session, self._policy = replace(session, parts=parts, controller=controller), FIXED_DEPTH
        self.together = 1 if begins_alike else at_once(self._session)

    def over(self, query_ids: Sequence[str]) -> dict[str, list[Ranked]]:
        found: dict[str, list[Ranked]] = {name: [] for name in self._budgets}
        for some in in_shards(self._session, query_ids):
            for name in list(self._budgets):
                try:
                    found[name] += self._replayed(name, some)
                except ScoreTableError:
                    del self._budgets[name]
        return {name: found[name] for name in self._budgets}

    def _replayed(self, name: str, query_ids: Sequence[str]) -> list[Ranked]:
        known, fresh = self._known[name], dict[str, Ranked]()
        if missing := [query_id for query_id in query_ids if query_id not in known]:
            replay = _replay_of(self._session, missing, self._policy)
            fresh = dict(zip(missing, replay.ranked_under(self._budgets[name]), strict=True))
            if len(known) + len(fresh) <= _room(self._session):
                known.update(fresh)
        return [fresh[query_id] if query_id in fresh else known[query_id] for query_id in query_ids]


def _are_alike(one: object, other: object) -> bool:
    """Whether two parts do the same."""
    return type(one) is type(other) and vars(one) == vars(other)


def _replay_of(session: Session, query_ids: Sequence[str], policy: str = "own") -> ShardReplay:
    """The queries through the session's policy. Where no score changes what is asked for, policies begin them once, and
    later jobs of a sweep find the first queries as they are.
    """
    if session.kept is None or not has_fixed_order(session, session.parts["budget"]):
        return ShardReplay(session, query_ids)
    kept: KeptReplays = session.kept.setdefault("replays", KeptReplays(_room(session) if session.swept else 0))
    return kept.of(session, query_ids, policy)


def _kept_records(session: Session) -> KeptRecords | None:
    """What jobs of a sweep make for one another, where scores change what the policy does, and no budget does."""
    if session.kept is None or not session.swept or not session.controller.shares_budgets:
        return None
    if has_fixed_order(session, session.parts["budget"]):
        return None
    found: KeptRecords = session.kept.setdefault("records", KeptRecords())
    return found


def _room(session: Session) -> int:
    """How many queries are kept for the next jobs."""
    return _KEPT_DOCS // session.controller.rounds.plan.original_query_depth


def _remembered(key: str) -> dict[str, Ranked]:
    """The replays of an incumbent so far, kept for later jobs of this sweep."""
    _replays[key] = found = _replays.pop(key, {})
    for oldest in list(_replays)[:-_KEPT]:
        del _replays[oldest]
    return found
