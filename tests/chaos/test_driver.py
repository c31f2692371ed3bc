"""kill -9 of ``run.py`` at random moments: while it starts, replays, writes its files and tracks them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

from chaos_runs import KILLED, Job, Moment, assert_clear, assert_same_results, assert_tracked_once
from command_line import content

SLOW = ["reranker._target_=misbehaving.Slow", "+reranker.seconds=0.1", "scheduler.batch_size=5"]
KILLS, MAX_KILLS = 24, 4
"""In all, and of one run before it is let finish."""


def test_a_killed_run_is_resumed_byte_by_byte_and_tracked_once(
    job: Callable[..., Job], tiny: list[str], tmp_path: Path, rng: Random, tally: Counter[str]
) -> None:
    command = [*tiny, *SLOW, "tracking.uri=sqlite:///mlflow.db"]
    undisturbed = job(*command, cwd=tmp_path / "undisturbed")
    started = time.monotonic()
    assert_clear(undisturbed.run(), 0)
    changes, seconds = undisturbed.changes(), time.monotonic() - started
    whole = content(undisturbed.out)

    kills = chain = 0
    while kills < KILLS:
        killed = job(*command, cwd=tmp_path / f"chain{chain}")
        chain += 1
        for _ in range(MAX_KILLS):
            ended = killed.run_until(Moment.any(rng, changes, seconds), "resume=true")
            if ended.code != KILLED:
                assert_clear(ended, 0)
                break
            kills += 1
        assert_clear(killed.resume(), 0)
        assert_same_results(killed.out, whole)
        assert_tracked_once(f"sqlite:///{killed.cwd}/mlflow.db", killed.out)
    tally["kill -9 of the driver"] += kills
    tally["runs resumed byte-identically after kills of the driver"] += chain
