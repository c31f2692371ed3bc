"""Replays a collection's queries through a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from experiments.build import component, session_for
from experiments.config import results_key
from experiments.journal import Journal
from experiments.record import QueryRecord

Progress = Callable[[int, int], None]
"""Called with (queries done, queries in all)."""


def replay_shard(config_json: str, query_ids: Sequence[str]) -> list[QueryRecord]:
    """Replay some queries in this process: the unit of work of every executor."""
    session = session_for(config_json)
    queries = session.dataset.queries
    return [QueryRecord.of(session.controller.run(queries[q], query_id=q)) for q in query_ids]


def replay(config: Mapping[str, Any], journal: Journal, progress: Progress) -> list[QueryRecord]:
    """Replay every query that the journal lacks, and return all records in the dataset's order."""
    key = results_key(config)
    query_ids = list(session_for(key).dataset.queries)
    todo = [q for q in query_ids if q not in journal.finished]
    executor = component(config, "executor")
    progress(len(query_ids) - len(todo), len(query_ids))
    for record in executor.run(replay_shard, key, todo):
        journal.append(record)
        progress(len(journal.finished), len(query_ids))
    return [journal.finished[q] for q in query_ids]
