"""Work for executors. Workers import it: test modules they may not find, since ``tests/`` is no package."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path

from experiments.config.options import RunConfig
from experiments.replay.records import replay_shard
from ragtune.core.errors import ScoreTableError


def echo(config: str, query_ids: Sequence[str]) -> list[str]:
    return [f"{config}:{query_id}" for query_id in query_ids]


def fail(config: str, query_ids: Sequence[str]) -> list[str]:
    raise ScoreTableError(f"no score for {query_ids[0]!r}")


def die(config: str, query_ids: Sequence[str]) -> list[str]:
    os.kill(os.getpid(), signal.SIGKILL)
    return []


def die_once(folder: str, query_ids: Sequence[str]) -> list[str]:
    if "q5" in query_ids and not Path(folder, "died").exists():
        Path(folder, "died").touch()
        die(folder, query_ids)
    return echo(folder, query_ids)


def mapped_files(cache: str, config: RunConfig, query_ids: Sequence[str]) -> list[tuple[int, frozenset[str]]]:
    """The process, and the files of the cache that it shares by mapping them, with their inodes, after a replay.

    Args:
        cache: folder of the cache.
        config: configuration of the replay.
        query_ids: what is replayed.
    """
    os.environ["RAGTUNE_CACHE"] = cache
    replay_shard(config, query_ids)
    lines = [line.split(maxsplit=5) for line in Path("/proc/self/maps").read_text().splitlines() if cache in line]
    # Pages of an "s" mapping are those of every process; of a "p" mapping they are its own once it writes.
    return [(os.getpid(), frozenset(f"{inode} {path}" for _, access, _, _, inode, path in lines if "s" in access))]
