"""The executor interface."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from textwrap import shorten
from typing import ClassVar

from experiments.evaluate.record import QueryRecord
from ragtune.core.errors import ConfigError, RagtuneError

_LARGEST = 1024
"""Queries of a shard, whose records are in memory at once."""

_WORDS = 400
"""Characters of what a library says."""

ShardWork = Callable[[str, Sequence[str]], list[QueryRecord]]


class WorkersLostError(RagtuneError):
    """Worker processes died at work; the queries that they had finished are kept.

    Args:
        error: the error of the executor's library.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(told(error))


def told(error: BaseException) -> str:
    """In words, that a worker process died, with the first paragraph of what the executor's library knows of it."""
    said = shorten(str(error).strip().partition("\n\n")[0], _WORDS, placeholder=" ...") or "no more is known"
    return f"a worker process died, killed or out of memory ({type(error).__name__}: {said})"


class Executor(ABC):
    """Interface of what runs shards of queries.

    Attributes:
        is_here: whether all of them are run in this process.
    """

    is_here: ClassVar[bool] = False

    @abstractmethod
    def run(self, work: ShardWork, config_json: str, query_ids: Sequence[str]) -> Iterator[Sequence[QueryRecord]]:
        """Call ``work(config_json, shard)`` for shards of the queries.

        Args:
            work: replays a shard; it can be pickled.
            config_json: configuration that the work gets.
            query_ids: all queries.

        Yields:
            The records of shards as they are finished, in any order.

        Raises:
            WorkersLostError: if a worker process died and its work could not be given to another.
        """


def shards(query_ids: Sequence[str], count: int) -> list[Sequence[str]]:
    """Split queries into ``count`` contiguous shards of nearly equal size, none of them empty, or too large to hold."""
    count = max(1, min(count, len(query_ids)), -(-len(query_ids) // _LARGEST))
    size, extra = divmod(len(query_ids), count)
    cuts = [i * size + min(i, extra) for i in range(count + 1)]
    return [query_ids[a:b] for a, b in itertools.pairwise(cuts) if b > a]


def require_positive(name: str, value: int) -> int:
    """Return ``value`` if it is a positive integer.

    Raises:
        ConfigError: naming the option and the value.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"executor.{name}={value!r}: allowed is an integer >= 1")
    return value
