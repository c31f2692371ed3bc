"""Replays a collection's queries through a subject."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    finish: Callable[[QueryRecord], None],
) -> None:
    """Replay every query that the journal lacks, and append it there.

    Args:
        subject: what the queries go through; it is open.
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
    for records in executor.run(partial(subject.replay_shard, config), todo):
        journal.append(*records)
        conclude({record.query_id: record for record in records})
        progress(len(journal.finished), len(query_ids))
