"""Replays a collection's queries through a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from experiments.config.compose import results_key
from experiments.config.progress import Progress
from experiments.evaluate.record import QueryRecord
from experiments.replay.build import component
from experiments.replay.journal import Journal
from experiments.replay.subjects.subject import Subject


def replay(config: Mapping[str, Any], journal: Journal, progress: Progress) -> list[QueryRecord]:
    """Replay every query that the journal lacks, and return all records in the dataset's order."""
    subject: Subject = component(config, "subject")
    key = results_key(config)
    query_ids = list(subject.open(key).queries)
    todo = [q for q in query_ids if q not in journal.finished]
    executor = component(config, "executor")
    progress(len(query_ids) - len(todo), len(query_ids))
    for record in executor.run(subject.replay_shard, key, todo):
        journal.append(record)
        progress(len(journal.finished), len(query_ids))
    return [journal.finished[q] for q in query_ids]
