"""The executor interface, and what executors share."""

from __future__ import annotations

import itertools
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from textwrap import shorten
from threading import Thread
from typing import ClassVar

from experiments.evaluate.record import QueryRecord
from ragtune.core.errors import RagtuneError

_LARGEST = 1024
"""Queries of a shard, whose records are in memory at once."""

_PERIOD_S = 0.5
"""Seconds between two looks at the driver."""

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
    """Interface of what runs shards of queries.

    Attributes:
        is_here: whether all of them are run in this process.
    """

    is_here: ClassVar[bool] = False

    @abstractmethod
    def run(self, work: ShardWork, query_ids: Sequence[str]) -> Iterator[Sequence[QueryRecord]]:
        """Call ``work`` for shards of the queries."""


def shards(query_ids: Sequence[str], count: int) -> list[Sequence[str]]:
    """Split queries into ``count`` contiguous shards of nearly equal size, none of them empty, or too large to hold."""
    count = max(1, min(count, len(query_ids)), -(-len(query_ids) // _LARGEST))
    size, extra = divmod(len(query_ids), count)
    cuts = [i * size + min(i, extra) for i in range(count + 1)]
    return [query_ids[a:b] for a, b in itertools.pairwise(cuts) if b > a]


@lru_cache(maxsize=1)
def end_with(driver: int) -> None:
    """End this process soon after its parent ``driver`` has died; a second call changes nothing.

    Does nothing in the driver itself.
    """
    if os.getpid() != driver:
        Thread(target=_watch, args=(driver,), daemon=True, name="parent watch").start()


def _watch(driver: int) -> None:
    while os.getppid() == driver:
        time.sleep(_PERIOD_S)
    os._exit(1)
