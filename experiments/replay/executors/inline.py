"""Runs queries in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from experiments.evaluate.record import QueryRecord
from experiments.replay.executors.executor import Executor, ShardWork, require_positive


class InlineExecutor(Executor):
    """Runs every query in this process.

    Args:
        together: queries that are handed over at once, at least. Those of a live reranker that scores many batches in
            one call are in lockstep; a kill costs what it costs to look their scores up again.

    Raises:
        ConfigError: on an argument out of range.
    """

    is_here = True

    def __init__(self, together: int = 1) -> None:
        self.together = require_positive("together", together)

    def run(self, work: ShardWork, config_json: str, query_ids: Sequence[str]) -> Iterator[Sequence[QueryRecord]]:
        for start in range(0, len(query_ids), self.together):
            yield work(config_json, query_ids[start : start + self.together])
