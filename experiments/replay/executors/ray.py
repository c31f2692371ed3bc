"""Ray tasks, on this machine or a cluster."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from experiments.config.paths import PROJECT_ROOT
from experiments.evaluate.record import QueryRecord
from experiments.replay.executors.executor import Executor, ShardWork, WorkersLostError, require_positive, shards
from ragtune.core.errors import MissingExtraError


class RayExecutor(Executor):
    """Runs shards of queries as plain Ray tasks.

    Args:
        address: address of a cluster; None starts a local Ray and stops it afterwards.
        num_cpus: cores of the local Ray; None for all.
        shards: number of tasks.

    Raises:
        ConfigError: on an argument out of range.
        MissingExtraError: if Ray is not installed.
    """

    def __init__(self, address: str | None = None, num_cpus: int | None = None, shards: int = 8) -> None:
        self.address = address
        self.num_cpus = None if num_cpus is None else require_positive("num_cpus", num_cpus)
        self.shards = require_positive("shards", shards)

    def run(self, work: ShardWork, config_json: str, query_ids: Sequence[str]) -> Iterator[QueryRecord]:
        try:
            import ray
        except ImportError:
            raise MissingExtraError("executor=ray", "ray") from None
        if not query_ids:
            return
        local: dict[str, Any] = {"num_cpus": self.num_cpus, "include_dashboard": False} if self.address is None else {}
        ray.init(address=self.address, log_to_driver=False, logging_level=logging.ERROR, **local)
        try:
            task = ray.remote(_worker_of(str(PROJECT_ROOT)))
            pickled: bytes = ray.cloudpickle.dumps(work)  # type: ignore[no-untyped-call]
            pending = [task.remote(pickled, config_json, list(part)) for part in shards(query_ids, self.shards)]
            while pending:
                done, pending = ray.wait(pending)
                for records in ray.get(done):
                    yield from records
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError as error:
            raise WorkersLostError(error) from None
        finally:
            ray.shutdown()


def _worker_of(root: str) -> Callable[[bytes, str, Sequence[str]], list[QueryRecord]]:
    """What a worker does. It is sent as it is, not by its module's name, which a worker would look up first."""

    def in_worker(pickled: bytes, config_json: str, query_ids: Sequence[str]) -> list[QueryRecord]:
        import pickle
        import sys

        if sys.path[0] != root:  # Ray puts the working directory there, which may be another checkout
            sys.path.insert(0, root)
        work: ShardWork = pickle.loads(pickled)  # noqa: S301 -- of the driver that runs this very function
        return work(config_json, query_ids)

    return in_worker
