"""kill -9 of ``run.py`` and of worker processes: a clear end or a recovery, and a byte-identical resumption."""

import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import psutil
import pytest
from chaos_runs import KILLED, Job, Moment, assert_clear, assert_same_results, assert_tracked_once, processes
from command_line import content, finish, finished_queries
from patience import HANG_S, wait_until

SLOW = ["reranker._target_=misbehaving.Slow", "+reranker.seconds=0.2", "scheduler.batch_size=3", "tracking=none"]
EXECUTORS = {
    "joblib": (5, ["executor=joblib", "executor.n_jobs=2"], "loky"),
    "ray": (3, ["executor=ray", "executor.num_cpus=2", "executor.shards=4"], "ray::"),
}
"""How many kills, the options, and what a worker's command line holds."""


def workers(driver: subprocess.Popen[str], mark: str) -> list[psutil.Process]:
    return processes(mark, driver.pid) if driver.poll() is None else []


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_killed_worker_costs_no_result(
    job: Callable[..., Job], tiny: list[str], tmp_path: Path, rng: Random, tally: Counter[str], executor: str
) -> None:
    kills, options, mark = EXECUTORS[executor]
    undisturbed = job(*tiny, *SLOW, cwd=tmp_path / "undisturbed")
    assert_clear(undisturbed.run(), 0)
    whole = content(undisturbed.out)
    for number in range(kills):
        killed = job(*tiny, *SLOW, *options, cwd=tmp_path / f"{executor}{number}")
        wanted = rng.randint(0, 3)
        driver = killed.start()
        _await_work(driver, killed, mark, wanted)
        victim = rng.choice(workers(driver, mark))
        os.kill(victim.pid, signal.SIGKILL)
        ended = finish(driver, HANG_S)
        tally[f"kill -9 of {executor} workers"] += 1
        tally[f"runs with {executor} workers that {'ended with a message' if ended.code else 'recovered'}"] += 1
        if ended.code:
            assert_clear(ended, 1)
            assert "repeat the command" in ended.err
        assert_clear(killed.resume(), 0)
        assert_same_results(killed.out, whole)


def _await_work(driver: subprocess.Popen[str], killed: Job, mark: str, wanted: int) -> None:
    def is_there() -> bool:
        return len(finished_queries(killed.out)) >= wanted and killed.log.exists() and bool(workers(driver, mark))

    _await(driver, is_there)


def _await(driver: subprocess.Popen[str], condition: Callable[[], object]) -> None:
    wait_until(lambda: driver.poll() is not None or bool(condition()))
    assert driver.poll() is None, driver.communicate()


SLOWER = ["reranker._target_=misbehaving.Slow", "+reranker.seconds=0.1", "scheduler.batch_size=5"]
KILLS, MAX_KILLS = 24, 4
"""In all, and of one run before it is let finish."""


def test_a_killed_run_is_resumed_byte_by_byte_and_tracked_once(
    job: Callable[..., Job], tiny: list[str], tmp_path: Path, rng: Random, tally: Counter[str]
) -> None:
    command = [*tiny, *SLOWER, "tracking.uri=sqlite:///mlflow.db"]
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
