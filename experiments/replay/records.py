"""Replays queries: a run's own, once for all jobs of a sweep that differ by their budget, and its baselines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial

from experiments.config.options import RunConfig
from experiments.config.progress import Progress
from experiments.evaluate.baselines import FIXED_DEPTH, FULL, INTERPOLATED, Beaten
from experiments.evaluate.rankings import small
from experiments.evaluate.record import BaselineReplay, QueryRecord
from experiments.replay.build import NO_PARTS, Session, controller_of, session_for
from experiments.replay.executors import Executor
from experiments.replay.journal import Journal
from ragtune.assemblers.greedy import GreedyAssembler
from ragtune.core.errors import RagtuneError, ScoreTableError
from ragtune.core.interfaces import BaseReformulator, BaseReranker
from ragtune.core.output import ControllerOutput
from ragtune.core.pool.ordering import Ordering
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.context import Request
from ragtune.core.units import LIMITS
from ragtune.estimators.baseline import BaselineEstimator
from ragtune.estimators.interpolation import WEIGHT, interpolated
from ragtune.expanders.none import NoExpander
from ragtune.schedulers.one_shot import OneShotScheduler

_ROOM = 64_000_000
"""Bytes of held records. A record that finds no room is replayed again when its job comes."""


def records_of(session: Session, query_ids: Iterable[str], *, traced: bool = True) -> Iterator[QueryRecord]:
    """Replay queries one after the other, with or without their traces."""
    for query_id in query_ids:
        output = session.controller.run(session.dataset.queries[query_id], query_id=query_id)
        yield QueryRecord.of(output, traced=traced)


def replay_shard(config: RunConfig, query_ids: Sequence[str]) -> list[QueryRecord]:
    """Replay some queries in this process. This is the unit of work of every executor."""
    session = session_for(config)
    if len(query_ids) > 1 and _gains_by_lockstep(session):
        requests = (Request(session.dataset.queries[query_id], query_id) for query_id in query_ids)
        return [QueryRecord.of(output) for output in session.controller.run_many(requests)]
    if config.later_budgets is None or not session.controller.shares_budgets:
        return list(records_of(session, query_ids))
    shared = _shared(config.without(*NO_PARTS))
    return [shared.of(session, query_id, config.later_budgets) for query_id in query_ids]


def _gains_by_lockstep(session: Session) -> bool:
    """Whether a reranker scores batches of many queries in one call, and no time limit could tell the difference."""
    together = any(type(each).rerank_many is not BaseReranker.rerank_many for each in session.rerankers.values())
    budget: CostBudget = session.parts["budget"]
    return together and budget.max_latency_ms is None


def replay(
    executor: Executor,
    config: RunConfig,
    query_ids: Sequence[str],
    journal: Journal,
    progress: Progress,
    finish: Callable[[QueryRecord], None],
) -> None:
    """Replay every query that the journal lacks, and append it there."""
    todo = [query_id for query_id in query_ids if query_id not in journal.finished]
    upcoming = iter(query_ids)
    query_id = next(upcoming, None)

    def conclude(fresh: Mapping[str, QueryRecord]) -> None:  # reading these from the journal takes longer
        nonlocal query_id
        while query_id is not None and query_id in journal.finished:
            finish(fresh[query_id] if query_id in fresh else journal.finished[query_id])
            query_id = next(upcoming, None)

    conclude({})
    progress(len(journal.finished), len(query_ids))
    for records in executor.run(partial(replay_shard, config), todo):
        journal.append(*records)
        conclude({record.query_id: record for record in records})
        progress(len(journal.finished), len(query_ids))


class SweptRecords:
    """Replays each query once for the jobs of a sweep that differ by budget; after a failure each job on its own."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, CostBudget], bytes] = {}
        self._room = _ROOM
        self._is_shared = True

    def of(self, session: Session, query_id: str, later: Sequence[CostBudget]) -> QueryRecord:
        """The record of a query under the session's budget. The records under later budgets are held."""
        own = session.parts["budget"]
        line = self._lines.pop((query_id, own), None)
        if line is not None:
            self._room += len(line)
            return QueryRecord.from_line(line)
        if later and self._is_shared and (records := _sound(session, query_id, [own, *later])):
            self._keep(query_id, dict(zip(later, records[1:], strict=True)))
            return records[0]
        self._is_shared = self._is_shared and not later
        return next(records_of(session, [query_id]))

    def _keep(self, query_id: str, records: dict[CostBudget, QueryRecord]) -> None:
        for budget, record in records.items():
            line = record.to_line()
            if len(line) <= self._room:
                self._room -= len(line)
                self._lines[query_id, budget] = line


@lru_cache(maxsize=1)
def _shared(alike: RunConfig) -> SweptRecords:
    """The records that a job shares with other jobs of its sweep. Those of the latest such jobs stay."""
    return SweptRecords()


def _sound(session: Session, query_id: str, budgets: list[CostBudget]) -> list[QueryRecord]:
    """The records under several budgets; none where something failed, which the controller then forgets."""
    request = Request(session.dataset.queries[query_id], query_id)
    try:
        records = list(map(QueryRecord.of, session.controller.run_under(request, budgets)))
    except RagtuneError:  # perhaps under the budget of another job
        records = []
    if records and not any(record.dropped or record.batches.get("failed") for record in records):
        return records
    session.controller.forget_failures()
    return []


_FIXED_PARTS = {
    "expander": NoExpander(),
    "estimator": BaselineEstimator(),
    "scheduler": OneShotScheduler(),
    "assembler": GreedyAssembler(Ordering.RERANKED_FIRST),
}
"""The parts of ``conf/experiment/fixed_depth.yaml``."""

_ORDERS = {FIXED_DEPTH: (FIXED_DEPTH, INTERPOLATED), FULL: (FULL,)}
"""The baselines that one replay of fixed depth is: by the scores, and where named by both scores."""

_FOR_EVERYTHING = dict.fromkeys((*LIMITS.values(), "assembly_token_buffer"))
"""The limits that reranking everything is freed of; the pool is the run's own."""

_KEPT_DOCS = 200_000
"""Candidates of replayed baselines that are kept for the next jobs: some half a kilobyte each."""


def is_fixed_depth(session: Session) -> bool:
    """Whether the policy is fixed depth: one batch of the first stage's best, ranked by their scores."""
    parts = session.parts
    return (
        all(type(parts[group]) is type(_FIXED_PARTS[group]) for group in ("estimator", "scheduler"))
        and (parts["expander"] is None or not parts["expander"].is_active)
        and parts["assembler"].ordering is not Ordering.FINAL_SCORE  # the others put the rest behind
    )


def is_free(session: Session) -> bool:
    """Whether asking again costs nothing: scores are recorded, and no model rewrites the queries."""
    reformulator = session.parts["reformulator"]
    asks_nobody = type(reformulator).expected_cost is BaseReformulator.expected_cost
    return asks_nobody and all(reranker.facts.is_recorded for reranker in session.rerankers.values())


def baselines_of(config: RunConfig, session: Session) -> Beaten:
    """What replays the baselines of a run; it replays nothing where that would cost something."""
    return FixedDepth(config, session).over if is_free(session) else lambda query_ids: {}


class FixedDepth:
    """Fixed depth under the run's budget and without a limit. One that lacks a recorded score is left out."""

    def __init__(self, config: RunConfig, session: Session) -> None:
        budget: CostBudget = session.parts["budget"]
        self._budgets = {FIXED_DEPTH: budget, FULL: budget.model_copy(update=_FOR_EVERYTHING)}
        same = config.without(*_FIXED_PARTS, *NO_PARTS)
        self._known = {replay: _replays(same, budget, replay) for replay, budget in self._budgets.items()}
        parts = {**session.parts, **_FIXED_PARTS}
        self._session = replace(session, parts=parts, controller=controller_of(config, parts, session.rerankers))
        self._room = _KEPT_DOCS // session.controller.rounds.plan.original_query_depth

    def over(self, query_ids: Sequence[str]) -> dict[str, list[BaselineReplay]]:
        """Replay queries: by the name of each baseline that could answer all queries so far, in their order."""
        found: dict[str, list[BaselineReplay]] = {name: [] for replay in self._budgets for name in _ORDERS[replay]}
        for query_id in query_ids:
            for replay, orders in self._ranked(query_id).items():
                for name, ranked in zip(_ORDERS[replay], orders, strict=True):
                    found[name].append(ranked)
        return {name: found[name] for replay in self._budgets for name in _ORDERS[replay]}

    def _ranked(self, query_id: str) -> dict[str, tuple[BaselineReplay, ...]]:
        found = {replay: self._known[replay][query_id] for replay in self._budgets if query_id in self._known[replay]}
        if missing := [replay for replay in self._budgets if replay not in found]:
            for replay, output in self._replayed(query_id, missing).items():
                found[replay] = _by_each_order(output, len(_ORDERS[replay]))
                if len(self._known[replay]) < self._room:
                    self._known[replay][query_id] = found[replay]
        return found

    def _replayed(self, query_id: str, replays: Sequence[str]) -> dict[str, ControllerOutput]:
        """The answers under these budgets; a budget under which a score is missing is given up."""
        request = Request(self._session.dataset.queries[query_id], query_id)
        try:
            outputs = self._session.controller.run_under(request, [self._budgets[replay] for replay in replays])
            return dict(zip(replays, outputs, strict=True))
        except ScoreTableError:
            if len(replays) == 1:
                del self._budgets[replays[0]]
                return {}
            return {name: output for each in replays for name, output in self._replayed(query_id, [each]).items()}


def _by_each_order(output: ControllerOutput, count: int) -> tuple[BaselineReplay, ...]:
    """A replay of fixed depth, whose estimates are first-stage scores: by the scores, for a count of 2 also by both."""
    by_scores = BaselineReplay.of(QueryRecord.of(output, traced=False))
    columns = output.history[-1].columns
    if count == 1:
        return (by_scores,)
    keys = interpolated(columns.priorities, columns.scores, WEIGHT)
    final = Ordering.POSTERIOR.keys_at(columns._replace(posteriors=keys)).argsort()
    return by_scores, by_scores._replace(final=small(final, len(by_scores.doc_ids)))


@lru_cache(maxsize=3)
def _replays(config: RunConfig, budget: CostBudget, replay: str) -> dict[str, tuple[BaselineReplay, ...]]:
    """The replays of a baseline so far, by query. Jobs of a sweep often differ by their policy alone."""
    return {}
