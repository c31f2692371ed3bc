"""Ray tasks, on this machine or a cluster."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from experiments.config.paths import PROJECT_ROOT
from experiments.evaluate.record import QueryRecord
from experiments.replay.executors.executor import Executor, ShardWork, WorkersLostError, shards
from ragtune.core.arguments import check_count, check_number
from ragtune.core.errors import MissingExtraError


class RayExecutor(Executor):
    """Runs shards of queries as plain Ray tasks, which Ray gives to other workers if theirs die, three times."""

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
            pickled: bytes = ray.cloudpickle.dumps(work)  # type: ignore[no-untyped-call]
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
