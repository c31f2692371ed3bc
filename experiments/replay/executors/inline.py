"""Runs queries in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from experiments.evaluate.record import QueryRecord
from experiments.replay.executors.executor import Executor, ShardWork
from ragtune.core.arguments import check_count


class InlineExecutor(Executor):
    """Runs every query in this process."""

    is_here = True

    def __init__(self, together: int = 1) -> None:
        self.together = check_count("executor.together", together, 1)

    def run(self, work: ShardWork, query_ids: Sequence[str]) -> Iterator[Sequence[QueryRecord]]:
        for start in range(0, len(query_ids), self.together):
            yield work(query_ids[start : start + self.together])
