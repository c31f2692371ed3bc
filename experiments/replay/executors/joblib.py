"""Processes of this machine, by joblib."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from experiments.evaluate.record import QueryRecord
from experiments.replay.executors.executor import Executor, ShardWork, WorkersLostError, require_positive, shards
from ragtune.core.errors import ConfigError


class JoblibExecutor(Executor):
    """Runs shards of queries in loky processes.

    Args:
        n_jobs: number of processes; -1 for one a core.
        shards_per_job: shards for each process; with more shards, progress is smoother and less is lost by a kill.

    Raises:
        ConfigError: on an argument out of range.
    """

    def __init__(self, n_jobs: int = -1, shards_per_job: int = 4) -> None:
        if isinstance(n_jobs, bool) or not isinstance(n_jobs, int) or (n_jobs < 1 and n_jobs != -1):
            raise ConfigError(f"executor.n_jobs={n_jobs!r}: allowed is an integer >= 1, or -1 for one a core")
        self.n_jobs = n_jobs
        self.shards_per_job = require_positive("shards_per_job", shards_per_job)

    def run(self, work: ShardWork, config_json: str, query_ids: Sequence[str]) -> Iterator[QueryRecord]:
        from joblib import Parallel, cpu_count, delayed
        from joblib.externals.loky.process_executor import BrokenProcessPool

        if not query_ids:
            return
        jobs = cpu_count() if self.n_jobs == -1 else self.n_jobs
        parallel = Parallel(n_jobs=jobs, return_as="generator_unordered")
        parts = shards(query_ids, jobs * self.shards_per_job)
        try:
            for records in parallel(delayed(work)(config_json, list(part)) for part in parts):
                yield from records
        except BrokenProcessPool as error:
            raise WorkersLostError(error) from None
