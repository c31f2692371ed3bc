"""Replays a collection's queries through a subject."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from experiments.config.compose import results_key
from experiments.config.progress import Progress
from experiments.evaluate.record import QueryRecord
from experiments.replay.executors.executor import Executor
from experiments.replay.journal import Journal
from experiments.replay.subjects.subject import Subject


def replay(
    subject: Subject,
    executor: Executor,
    config: Mapping[str, Any],
    query_ids: Sequence[str],
    journal: Journal,
    progress: Progress,
    finish: Callable[[Sequence[QueryRecord]], None],
) -> None:
    """Replay every query that the journal lacks, which has all of them then.

    Args:
        subject: what the queries go through; it is open.
        executor: runs them.
        config: plain data.
        query_ids: all queries.
        journal: has the finished queries, and gets the others.
        progress: told of the queries done.
        finish: given the records of queries: first those that the journal has, then others right after they have been
            replayed; workers do not wait for it.
    """
    key = results_key(config)
    begun = len(journal.finished)
    todo = query_ids if not begun else [query_id for query_id in query_ids if query_id not in journal.finished]
    for query_id in query_ids if begun else ():
        if query_id in journal.finished:
            finish([journal.finished[query_id]])
    progress(begun, len(query_ids))
    for records in executor.run(subject.replay_shard, key, todo):
        journal.append(*records)
        finish(records)
        progress(len(journal.finished), len(query_ids))
