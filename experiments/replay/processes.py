"""Does jobs of a study or of advice in worker processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from experiments.replay.executors.executor import WorkersLostError, end_with

Work = TypeVar("Work")
Result = TypeVar("Result")


def executed(work: Callable[[Work], Result], jobs: Sequence[Work], processes: int) -> Iterator[Result]:
    """Do the jobs in worker processes, -1 for one a core; what they return comes in any order."""
    from joblib import Parallel, cpu_count, delayed
    from joblib.externals.loky.process_executor import BrokenProcessPool

    workers = min(cpu_count() if processes == -1 else processes, max(1, len(jobs)))
    if workers == 1:
        yield from map(work, jobs)
        return
    parallel = Parallel(n_jobs=workers, return_as="generator_unordered", batch_size=1, pre_dispatch=workers)
    try:
        yield from parallel(delayed(_beside)(os.getpid(), work, job) for job in jobs)
    except BrokenProcessPool as error:
        raise WorkersLostError(error) from error


def _beside(driver: int, work: Callable[[Work], Result], job: Work) -> Result:
    """Do a job in a worker process, which ends when its driver is gone."""
    end_with(driver)
    return work(job)
