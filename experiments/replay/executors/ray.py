"""Ray tasks, on this machine or a cluster, and the actors that they have score."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

from experiments.config.paths import PROJECT_ROOT
from experiments.evaluate.record import QueryRecord
from experiments.replay.executors.actors import asking, rerankers_of
from experiments.replay.executors.executor import Executor, ShardWork, WorkersLostError, require_positive, shards
from experiments.replay.executors.shardfiles import ShardFiles
from experiments.replay.inputs import identity
from ragtune.core.arguments import check_count, check_number
from ragtune.core.errors import MissingExtraError

_CALLS = 64
"""Calls of tasks that an actor takes in at once; further ones wait with Ray."""

_RETRIES = 3
"""How often an actor that died is replaced, and its calls repeated: as often as Ray gives a task to another worker."""


class RayExecutor(Executor):
    """Runs shards of queries as plain Ray tasks, which Ray gives to other workers if theirs die.

    Args:
        address: address of a cluster; None starts a local Ray and stops it afterwards.
        num_cpus: cores of the local Ray; None for all.
        shards: number of tasks.
        num_gpus: share of a GPU, >= 0, of each actor; without actors, of each task.
        actors: processes that keep the rerankers' models and score what all tasks ask for, >= 0; 0: each task's process
            loads the models for its shard. An actor that dies is replaced, three times.
        storage: where each finished shard is kept until the run is complete, for a driver that takes over from one that
            died: a folder that all machines share, or ``s3://`` or ``gs://``. None hands records to the driver only,
            which keeps in its journal what it has received.

    Raises:
        ConfigError: on an argument out of range.
        MissingExtraError: if Ray is not installed.
    """

    def __init__(
        self,
        address: str | None = None,
        num_cpus: int | None = None,
        shards: int = 8,
        num_gpus: float = 0.0,
        actors: int = 0,
        storage: str | None = None,
    ) -> None:
        self.address = address
        self.num_cpus = None if num_cpus is None else require_positive("num_cpus", num_cpus)
        self.shards = require_positive("shards", shards)
        self.num_gpus = check_number("executor.num_gpus", num_gpus, low=0.0)
        self.actors = check_count("executor.actors", actors, low=0)
        self.storage = storage

    def run(self, work: ShardWork, config_json: str, query_ids: Sequence[str]) -> Iterator[Sequence[QueryRecord]]:
        try:
            import ray
        except ImportError:
            raise MissingExtraError("executor=ray", "ray") from None
        kept = None if self.storage is None else ShardFiles(self.storage, _name_of(config_json))
        if kept and query_ids:
            query_ids = yield from _taken_over(kept.finished(), query_ids)
        if query_ids:
            yield from self._replayed(ray, work, config_json, query_ids, kept)
        if kept:  # of a driver that died before it came here they are left, even if its journal has every query
            kept.clear()

    def _replayed(
        self, ray: Any, work: ShardWork, config_json: str, query_ids: Sequence[str], kept: ShardFiles | None
    ) -> Iterator[Sequence[QueryRecord]]:
        local: dict[str, Any] = {"num_cpus": self.num_cpus, "include_dashboard": False} if self.address is None else {}
        # Without an address, Ray joins a cluster that it finds on this machine or that RAY_ADDRESS names.
        ray.init(address=self.address or "local", log_to_driver=False, logging_level=logging.ERROR, **local)
        try:
            actors = self._actors(ray, config_json)
            config_json = asking(config_json, list(actors)) if actors else config_json
            task = ray.remote(num_gpus=0.0 if actors else self.num_gpus)(_worker_of(*_places()))
            pickled: bytes = ray.cloudpickle.dumps((work, kept))
            pending = [task.remote(pickled, config_json, list(part)) for part in shards(query_ids, self.shards)]
            while pending:
                done, pending = ray.wait(pending)
                for shard in ray.get(done):
                    yield kept.read(shard) if kept else shard
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError as error:
            raise WorkersLostError(error) from None
        finally:
            ray.shutdown()

    def _actors(self, ray: Any, config_json: str) -> dict[str, Any]:
        """The actors by name, ready; they end with the driver."""
        if not self.actors:
            return {}
        options = {"max_concurrency": _CALLS, "max_restarts": _RETRIES, "max_task_retries": _RETRIES}
        # No core is set aside: where every core had an actor, none would be left for the tasks that ask them.
        scorer = ray.remote(num_cpus=0, num_gpus=self.num_gpus, **options)(_scorer_of(*_places()))
        nodes = rerankers_of(json.loads(config_json))
        made = {name: scorer.options(name=name).remote(nodes) for name in map("reranker {}".format, range(self.actors))}
        ray.get([actor.prepare.remote() for actor in made.values()])
        return made


def _taken_over(
    finished: Iterator[list[QueryRecord]], query_ids: Sequence[str]
) -> Generator[list[QueryRecord], None, Sequence[str]]:
    """The records of finished shards that are still wanted; returned are the other queries."""
    waiting = None
    for shard in finished:
        if waiting is None:  # where no former driver has left anything, memory does not hold all ids
            waiting = dict.fromkeys(query_ids)
        wanted = [record for record in shard if record.query_id in waiting]
        for record in wanted:
            del waiting[record.query_id]
        yield wanted
    return query_ids if waiting is None else list(waiting)


def _name_of(config_json: str) -> str:
    """What tells a run, and the content of its input files, from every other."""
    return str(identity(json.loads(config_json))["fingerprint"])[:16]


def _places() -> tuple[str, str]:
    """Where the code is, and where relative paths begin."""
    return str(PROJECT_ROOT), str(Path.cwd())


def _worker_of(root: str, home: str) -> Callable[[bytes, str, Sequence[str]], Any]:
    """What a worker does. It is sent as it is, not by its module's name, which a worker would look up first.

    Args:
        root: where the code is.
        home: where relative paths begin, if the worker's machine has that folder.
    """

    def in_worker(pickled: bytes, config_json: str, query_ids: Sequence[str]) -> Any:
        import contextlib
        import os
        import pickle
        import sys

        with contextlib.suppress(OSError):
            os.chdir(home)
        if sys.path[0] != root:  # Ray puts the working directory there, which may be another checkout
            sys.path.insert(0, root)
        work, kept = pickle.loads(pickled)  # noqa: S301 -- of the driver that runs this very function
        records = work(config_json, query_ids)
        return kept.write(records) if kept else records

    return in_worker


def _scorer_of(root: str, home: str) -> type:
    """The class of the actors, sent as it is, like the worker."""

    class RerankActor:
        def __init__(self, nodes: Any) -> None:
            import contextlib
            import os
            import sys

            with contextlib.suppress(OSError):
                os.chdir(home)
            if sys.path[0] != root:
                sys.path.insert(0, root)
            from experiments.replay.executors.actors import Scorer

            self._scorer = Scorer(nodes)

        def prepare(self) -> None:
            self._scorer.prepare()

        def score(self, strategy: str, asked: Any) -> Any:
            return self._scorer.score(strategy, asked)

        def expected_cost(self, strategy: str, asked: Any) -> Any:
            return self._scorer.expected_cost(strategy, asked)

    return RerankActor
