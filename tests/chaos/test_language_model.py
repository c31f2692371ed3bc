"""A language model that fails at 30% while the driver is killed: nothing is lost and nothing paid twice."""

import json
import os
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from chaos_runs import KILLED, Job, assert_clear
from command_line import content, finish
from patience import wait_until

KILLS = 8
SETTLE_S = 1.0
"""Until the server has ended what a killed client had asked."""


@pytest.fixture
def asked(tiny: list[str], tmp_path: Path, llm_server: Any) -> list[str]:
    """Overrides of a pointwise reranker that asks the server and records its answers."""
    options = {"base_url": llm_server.url, "cache_dir": tmp_path / "record", "max_retries": 2, "backoff_initial_s": 0}
    given = [f"reranker.llm.{name}={value}" for name, value in options.items()]
    models = ["reranker=llm_pointwise", "reranker.llm.model=test", "+reranker.llm.prices.test={prompt:1,completion:1}"]
    return [*tiny, *models, *given, "scheduler.batch_size=3", "budget=unlimited", "tracking=none"]


def recorded(folder: Path) -> int:
    """Answers in the record that somebody was billed for; what failed for good may have cost nothing."""
    file = folder / "answers.sqlite"
    if not file.exists():
        return 0
    with closing(sqlite3.connect(file)) as db, suppress(sqlite3.OperationalError):  # made, but still empty
        stored = (json.loads(value) for (_, value, *_rest) in db.execute("SELECT * FROM answers"))
        return sum(answer["prompt_tokens"] > 0 for answer in stored)
    return 0


def test_nothing_is_paid_twice_though_the_server_fails_and_the_driver_is_killed(
    job: Callable[..., Job], asked: list[str], llm_server: Any, tmp_path: Path, rng: Random, tally: Counter[str]
) -> None:
    kills = chain = 0
    while kills < KILLS:
        llm_server.reset()
        llm_server.fail_randomly(0.3, seed=rng.randrange(1000))
        record = tmp_path / f"record{chain}"
        run = job(*asked, "failures.max_share=1", f"reranker.llm.cache_dir={record}", cwd=tmp_path / f"chain{chain}")
        chain += 1
        unrecorded = 0
        for _ in range(4):
            if not killed_while_asking(run, llm_server, rng):
                break
            kills += 1
            # Answered, but the driver died before it could note the answer: paid, and asked once more.
            unrecorded = len(llm_server.billed) - recorded(record / "llm")
        assert_clear(run.run("resume=true"), 0)
        bodies = Counter(json.dumps(request.body, sort_keys=True) for request in llm_server.billed)
        twice = sum(bodies.values()) - len(bodies)
        lost = len(bodies) - recorded(record / "llm")  # asked once more, and refused for good then
        assert lost >= 0
        assert twice + lost <= unrecorded
        tally["answers billed by the language model"] += len(llm_server.billed)
        tally["answers billed that were in flight at a kill, and asked again"] += twice
        tally["answers billed a second time although they had been recorded"] += max(0, twice - unrecorded)
        assert_replays(run, llm_server)
    tally["kill -9 of the driver while it asks a language model"] += kills


def killed_while_asking(run: Job, server: Any, rng: Random) -> bool:
    """Whether the run was killed, after some more requests, before it had ended."""
    driver = run.start("resume=true")
    wanted = len(server.requests) + rng.randint(0, 12)
    wait_until(lambda: len(server.requests) > wanted or driver.poll() is not None)
    with suppress(subprocess.TimeoutExpired):
        driver.wait(rng.uniform(0, 0.05))
    with suppress(ProcessLookupError):
        os.killpg(driver.pid, signal.SIGKILL)
    ended = finish(driver)
    time.sleep(SETTLE_S)
    return ended.code == KILLED


def assert_replays(run: Job, server: Any) -> None:
    """What was resumed is what its record gives, byte by byte, without a request."""
    server.requests.clear()
    replay = replace(run, arguments=[*run.arguments, "reranker.llm.mode=replay"], cwd=run.cwd / "again")
    assert_clear(replay.run(), 0)
    assert server.requests == []
    resumed, replayed = content(run.out), content(replay.out)
    for name in ("run.trec", "curve.csv", "curve.png", "traces.jsonl.gz"):
        assert resumed[name] == replayed[name], name
