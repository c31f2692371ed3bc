"""Processes of this machine, by joblib."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence

from experiments.evaluate.record import QueryRecord
from experiments.replay.executors.executor import (
    Executor,
    ShardWork,
    WorkersLostError,
    end_with,
    shards,
    told,
)
from ragtune.core.arguments import check_count
from ragtune.core.errors import ConfigError


class JoblibExecutor(Executor):
    """Runs shards of queries in loky processes. Shards that were lost with a process are given to new ones, once."""

    def __init__(self, n_jobs: int = -1, shards_per_job: int = 4) -> None:
        if n_jobs == 0:
            raise ConfigError("executor.n_jobs=0: allowed is a whole number >= 1, or -1 for one a core")
        self.n_jobs = check_count("executor.n_jobs", n_jobs, -1)
        self.shards_per_job = check_count("executor.shards_per_job", shards_per_job, 1)

    def run(self, work: ShardWork, query_ids: Sequence[str]) -> Iterator[Sequence[QueryRecord]]:
        from joblib import cpu_count
        from joblib.externals.loky.process_executor import BrokenProcessPool

        if not query_ids:
            return
        jobs = cpu_count() if self.n_jobs == -1 else self.n_jobs
        waiting = dict(enumerate(shards(query_ids, jobs * self.shards_per_job)))
        try:
            yield from _worked_on(work, waiting, jobs)
        except BrokenProcessPool as error:
            sys.stderr.write(f"warning: {told(error)}; its queries are given to another\n")
            try:
                yield from _worked_on(work, waiting, jobs)
            except BrokenProcessPool as again:
                raise WorkersLostError(again) from again


def _worked_on(work: ShardWork, waiting: dict[int, Sequence[str]], jobs: int) -> Iterator[Sequence[QueryRecord]]:
    """The records of the waiting shards, which leave ``waiting`` as they are done."""
    from joblib import Parallel, delayed

    parallel = Parallel(n_jobs=jobs, return_as="generator_unordered")
    calls = (delayed(_numbered)(os.getpid(), number, work, list(part)) for number, part in list(waiting.items()))
    for number, records in parallel(calls):
        del waiting[number]
        yield records


def _numbered(driver: int, number: int, work: ShardWork, query_ids: Sequence[str]) -> tuple[int, list[QueryRecord]]:
    end_with(driver)
    return number, work(query_ids)
