"""Work for executors. Workers import it: test modules they may not find, since ``tests/`` is no package."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path

from ragtune.core.errors import ScoreTableError


def echo(config_json: str, query_ids: Sequence[str]) -> list[str]:
    return [f"{config_json}:{query_id}" for query_id in query_ids]


def fail(config_json: str, query_ids: Sequence[str]) -> list[str]:
    raise ScoreTableError(f"no score for {query_ids[0]!r}")


def die(config_json: str, query_ids: Sequence[str]) -> list[str]:
    os.kill(os.getpid(), signal.SIGKILL)
    return []


def die_once(folder: str, query_ids: Sequence[str]) -> list[str]:
    if "q5" in query_ids and not Path(folder, "died").exists():
        Path(folder, "died").touch()
        die(folder, query_ids)
    return echo(folder, query_ids)
