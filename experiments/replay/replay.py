"""Replays a collection's queries through a subject."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from experiments.config.progress import Progress
from experiments.config.run_config import RunConfig
from experiments.evaluate.record import QueryRecord
from experiments.replay.executors.executor import Executor
from experiments.replay.journal import Journal
from experiments.replay.subjects.subject import Subject


def replay(
    subject: Subject,
    executor: Executor,
    config: RunConfig,
    query_ids: Sequence[str],
    journal: Journal,
    progress: Progress,
    finish: Callable[[Sequence[QueryRecord]], None],
) -> None:
    """Replay every query that the journal lacks, and append it there.

    Args:
        subject: what the queries go through; it is open.
        executor: runs them.
        config: of the run.
        query_ids: all queries.
        journal: has the finished queries, and gets the others.
        progress: called with the number of finished queries.
        finish: called with the records of queries: first those of the journal, then others as they are finished.
            Workers do not wait for it.
    """
    begun = len(journal.finished)
    todo = query_ids if not begun else [query_id for query_id in query_ids if query_id not in journal.finished]
    for query_id in query_ids if begun else ():
        if query_id in journal.finished:
            finish([journal.finished[query_id]])
    progress(begun, len(query_ids))
    for records in executor.run(partial(subject.replay_shard, config), todo):
        journal.append(*records)
        finish(records)
        progress(len(journal.finished), len(query_ids))
