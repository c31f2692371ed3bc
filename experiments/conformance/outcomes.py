"""Outcomes of checks, kept in the cache folder: the same code is checked once."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path

from experiments.config.sources import Sources
from ragtune.core.errors import ConfigError
from ragtune.data.caches.diskcache import AUTO, resolve_cache_dir
from ragtune.data.caches.sqlitecache import SqliteCache

SPECS = {"decisions": "0.55.0", "canonical": "1.1.0"}
"""The suites, and the version of the specification that each holds the code to.

The canonical one repeats that of ragtune.canonical.conformance, so that a run need not load the canonical blocks."""

_STARTED_NS = time.time_ns()


def differences_once(
    name: str, sources: Sources, modules: Iterable[str], data: Sequence[Path], check: Callable[[], Sequence[str]]
) -> list[str]:
    """What a check finds, one line a difference: from the cache if the same code was checked before.

    A process that began before a file changed may have loaded the text from before. So it checks what it has loaded,
    and neither reads nor writes the cache. A cache that cannot be used costs time only.

    Args:
        name: what is checked.
        sources: the code.
        modules: modules that the check runs.
        data: further files that it reads.
        check: finds the differences; it is called only if it has to be.
    """
    files = [*sources.files(modules).values(), *data]
    if any(file.stat().st_mtime_ns > _STARTED_NS for file in files):
        return list(check())
    key = SqliteCache.key(name, sources.digest(modules, data))
    with closing(_cache()) as cache:
        with suppress(ConfigError, sqlite3.OperationalError):  # to put warns about it
            if known := cache.get([key]):
                return [str(line) for line in json.loads(known[key])]
        found = list(check())
        cache.put({key: json.dumps(found)})
    return found


def _cache() -> SqliteCache[str]:
    folder = resolve_cache_dir(AUTO)
    assert folder is not None  # noqa: S101 -- AUTO always names one; for the type checker
    return SqliteCache(folder / "conformance.sqlite", "outcome", "differences TEXT")
