"""Records of replayed queries: one after the other, or once for all jobs of a sweep that differ by their budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any

from experiments.config.progress import Progress
from experiments.config.run_config import RunConfig
from experiments.evaluate.record import QueryRecord
from experiments.replay.build import NO_PARTS, Session, session_for
from experiments.replay.component import component
from experiments.replay.executors.executor import Executor
from experiments.replay.journal import Journal
from ragtune.core.errors import ConfigError, RagtuneError
from ragtune.core.interfaces import BaseReranker
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.request import Request

_ROOM = 64_000_000
"""Bytes of held records. A record that finds no room is replayed again when its job comes."""


def records_of(session: Session, query_ids: Iterable[str], *, traced: bool = True) -> Iterator[QueryRecord]:
    """Replay queries one after the other, with or without their traces.

    Raises:
        InputError: if a component does.
    """
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
    shared, later = swept_records(config), budgets_of(config.later_budgets)
    return [shared.of(session, query_id, later) for query_id in query_ids]


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
    """Replay every query that the journal lacks, and append it there.

    Args:
        executor: runs them.
        config: of the run.
        query_ids: all queries.
        journal: has the finished queries, and gets the others.
        progress: called with the number of finished queries.
        finish: called with each record, in the order of the queries, as soon as all before it are finished.
            Workers do not wait for it.
    """
    todo = [query_id for query_id in query_ids if query_id not in journal.finished]
    upcoming = iter(query_ids)
    query_id = next(upcoming, None)

    def conclude(fresh: Mapping[str, QueryRecord]) -> None:
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
    """Replays each query once for all jobs of a sweep that differ by their budget alone.

    A record is the one that its job alone would have made. Where something fails under the other budgets, each job
    replays its own queries from then on, since a failure affects the requests that follow (rule F3).
    """

    def __init__(self) -> None:
        self._lines: dict[tuple[str, CostBudget], bytes] = {}
        self._room = _ROOM
        self._is_shared = True

    def of(self, session: Session, query_id: str, later: Sequence[CostBudget]) -> QueryRecord:
        """The record of a query under the session's budget. The records under later budgets are held.

        Raises:
            InputError: if a component does.
        """
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


def swept_records(config: RunConfig) -> SweptRecords:
    """The records that this job shares with other jobs of its sweep. Those of the latest such jobs stay."""
    return _of_jobs(config.without(*NO_PARTS))


@lru_cache(maxsize=1)
def _of_jobs(alike: RunConfig) -> SweptRecords:
    return SweptRecords()


def budgets_of(nodes: Sequence[Mapping[str, Any]]) -> list[CostBudget]:
    """The budgets. A bad one is left out: its own job reports it."""
    budgets = []
    for node in nodes:
        with suppress(ConfigError):
            budgets.append(component({"budget": node}, "budget"))
    return budgets


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
