"""Executors: where queries and other jobs run. The results do not depend on the choice."""

from __future__ import annotations

import itertools
import logging
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from textwrap import shorten
from threading import Thread
from typing import Any, ClassVar, TypeVar

from experiments.config.paths import PROJECT_ROOT
from experiments.evaluate.record import QueryRecord
from ragtune.core.arguments import check_count, check_number
from ragtune.core.errors import ConfigError, MissingExtraError, RagtuneError

_LARGEST = 1024
"""Queries of a shard, whose records are in memory at once."""

_PERIOD_S = 0.5

Work = TypeVar("Work")
Result = TypeVar("Result")
ShardWork = Callable[[Sequence[str]], list[QueryRecord]]
"""Replays a shard of queries; it can be pickled."""


class WorkersLostError(RagtuneError):
    """Worker processes died at work; the queries that they had finished are kept."""

    def __init__(self, error: Exception) -> None:
        super().__init__(told(error))


def told(error: BaseException) -> str:
    """A message that a worker process died, with the first paragraph of the library's error."""
    said = shorten(str(error).strip().partition("\n\n")[0], 400, placeholder=" ...") or "no more is known"
    return f"a worker process died, killed or out of memory ({type(error).__name__}: {said})"


class Executor(ABC):
    """Interface of what runs shards of queries."""

    is_here: ClassVar[bool] = False
    """Whether all of them are run in this process."""

    @abstractmethod
    def run(self, work: ShardWork, query_ids: Sequence[str]) -> Iterator[Sequence[QueryRecord]]:
        """Yield the records of shards as they are finished, in any order; WorkersLostError where workers are lost."""


class InlineExecutor(Executor):
    """Runs every query in this process, ``together`` of them at once: a live reranker scores them in shared calls."""

    is_here = True

    def __init__(self, together: int = 1) -> None:
        self.together = check_count("executor.together", together, 1)

    def run(self, work: ShardWork, query_ids: Sequence[str]) -> Iterator[Sequence[QueryRecord]]:
        for start in range(0, len(query_ids), self.together):
            yield work(query_ids[start : start + self.together])


class JoblibExecutor(Executor):
    """Runs shards of queries in ``n_jobs`` loky processes, -1 for one a core. A kill loses the shards at work."""

    def __init__(self, n_jobs: int = -1, shards_per_job: int = 4) -> None:
        if n_jobs == 0:
            raise ConfigError("executor.n_jobs=0: allowed is a whole number >= 1, or -1 for one a core")
        self.n_jobs = check_count("executor.n_jobs", n_jobs, -1)
        self.shards_per_job = check_count("executor.shards_per_job", shards_per_job, 1)

    def run(self, work: ShardWork, query_ids: Sequence[str]) -> Iterator[Sequence[QueryRecord]]:
        from joblib import cpu_count

        jobs = cpu_count() if self.n_jobs == -1 else self.n_jobs
        yield from executed(work, shards(query_ids, jobs * self.shards_per_job), jobs)


class RayExecutor(Executor):
    """Runs shards of queries as plain Ray tasks; starts a local Ray where no address is given."""

    def __init__(
        self, address: str | None = None, num_cpus: int | None = None, shards: int = 8, num_gpus: float = 0.0
    ) -> None:
        self.address = address
        self.num_cpus = None if num_cpus is None else check_count("executor.num_cpus", num_cpus, 1)
        self.shards = check_count("executor.shards", shards, 1)
        self.num_gpus = check_number("executor.num_gpus", num_gpus, low=0.0)

    def run(self, work: ShardWork, query_ids: Sequence[str]) -> Iterator[Sequence[QueryRecord]]:
        try:
            import ray
        except ImportError:
            raise MissingExtraError("executor=ray", "ray") from None
        if not query_ids:
            return
        local: dict[str, Any] = {"num_cpus": self.num_cpus, "include_dashboard": False} if self.address is None else {}
        # Without an address, Ray joins a cluster that it finds on this machine or that RAY_ADDRESS names.
        ray.init(address=self.address or "local", log_to_driver=False, logging_level=logging.ERROR, **local)
        try:
            task = ray.remote(num_gpus=self.num_gpus)(worker_of(str(PROJECT_ROOT), str(Path.cwd())))
            pickled: bytes = ray.cloudpickle.dumps(work)
            pending = [task.remote(pickled, list(part)) for part in shards(query_ids, self.shards)]
            while pending:
                done, pending = ray.wait(pending)
                yield from ray.get(done)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError as error:
            raise WorkersLostError(error) from None
        finally:
            ray.shutdown()


def worker_of(root: str, home: str) -> Callable[[bytes, Sequence[str]], Any]:
    """The task of a worker. Ray sends it by value, since a worker would look its module up before the code is found."""

    def in_worker(pickled: bytes, query_ids: Sequence[str]) -> Any:
        import contextlib
        import os
        import pickle
        import sys

        with contextlib.suppress(OSError):
            os.chdir(home)
        if sys.path[0] != root:  # Ray puts the working directory there, which may be another checkout
            sys.path.insert(0, root)
        return pickle.loads(pickled)(query_ids)  # noqa: S301 -- of the driver that runs this very function

    return in_worker


def executed(work: Callable[[Work], Result], jobs: Sequence[Work], processes: int) -> Iterator[Result]:
    """Do jobs in worker processes, -1 for one a core. Results come in any order; lost jobs are done again, once."""
    from joblib import Parallel, cpu_count, delayed
    from joblib.externals.loky.process_executor import BrokenProcessPool

    workers = min(cpu_count() if processes == -1 else processes, len(jobs))
    if workers <= 1:
        yield from map(work, jobs)
        return
    waiting = dict(enumerate(jobs))
    for is_last in (False, True):
        parallel = Parallel(n_jobs=workers, return_as="generator_unordered", batch_size=1, pre_dispatch=workers)
        try:
            calls = [delayed(_numbered)(os.getpid(), number, work, job) for number, job in waiting.items()]
            for number, result in parallel(calls):
                del waiting[number]
                yield result
            return
        except BrokenProcessPool as error:
            if is_last:
                raise WorkersLostError(error) from error
            sys.stderr.write(f"warning: {told(error)}; its work is given to another\n")


def _numbered(driver: int, number: int, work: Callable[[Work], Result], job: Work) -> tuple[int, Result]:
    end_with(driver)
    return number, work(job)


def shards(query_ids: Sequence[str], count: int) -> list[Sequence[str]]:
    """Split queries into ``count`` contiguous shards of nearly equal size, none of them empty, or too large to hold."""
    count = max(1, min(count, len(query_ids)), -(-len(query_ids) // _LARGEST))
    size, extra = divmod(len(query_ids), count)
    cuts = [i * size + min(i, extra) for i in range(count + 1)]
    return [query_ids[a:b] for a, b in itertools.pairwise(cuts) if b > a]


@lru_cache(maxsize=1)
def end_with(driver: int) -> None:
    """End this process soon after its parent ``driver`` has died. Does nothing in the driver itself."""
    if os.getpid() != driver:
        Thread(target=_watch, args=(driver,), daemon=True, name="parent watch").start()


def _watch(driver: int) -> None:
    while os.getppid() == driver:
        time.sleep(_PERIOD_S)
    os._exit(1)
