"""Runs one query after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from experiments.evaluate.record import QueryRecord
from experiments.replay.executors.executor import Executor, ShardWork


class InlineExecutor(Executor):
    """Runs every query in this process."""

    def run(self, work: ShardWork, config_json: str, query_ids: Sequence[str]) -> Iterator[QueryRecord]:
        for query_id in query_ids:
            yield from work(config_json, [query_id])
