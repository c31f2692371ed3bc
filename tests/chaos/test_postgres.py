"""kill -9 of PostgreSQL and of its clients while documents are ingested and searched."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import psutil
import pytest
from chaos_runs import KILLED, LIMIT_S, Job, assert_clear, assert_same_results
from command_line import content, finish

from ragtune.canonical.store.database import PostgresDatabase
from ragtune.canonical.store.embedded import EmbeddedServer
from ragtune.canonical.types import StoreCounts
from ragtune.embedders.hashing import HashingEmbedder

INGEST = ["embedder._target_=misbehaving.SlowEmbedder", "batch=2", "collection=tiny"]
SLOW = ["reranker._target_=misbehaving.Slow", "+reranker.seconds=0.2", "scheduler.batch_size=3", "tracking=none"]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A working directory that the user of a server that root starts may pass."""
    with tempfile.TemporaryDirectory(prefix="ragtune-chaos-", ignore_cleanup_errors=True) as name:
        path = Path(name)
        path.chmod(0o711)
        yield path
        assert server_pid(path) is None or not psutil.pid_exists(server_pid(path) or 0), "a server was left running"


def server_pid(cwd: Path) -> int | None:
    with suppress(OSError, ValueError, IndexError):
        return int((cwd / "results" / "postgres" / "pgdata" / "postmaster.pid").read_text().splitlines()[0])
    return None


def kill_after(seconds: float, driver: subprocess.Popen[str], cwd: Path, victim: str) -> bool:
    """Wait for the server, and kill it or its client so long afterwards; whether there was anything to kill."""
    deadline = time.monotonic() + LIMIT_S
    while server_pid(cwd) is None and driver.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    with suppress(subprocess.TimeoutExpired):
        driver.wait(seconds)
    pid = server_pid(cwd) if victim == "PostgreSQL" else driver.pid
    if driver.poll() is not None or pid is None:
        return False
    with suppress(ProcessLookupError):
        (os.kill if victim == "PostgreSQL" else os.killpg)(pid, signal.SIGKILL)
        return True
    return False


def run_killed(job: Job, rng: Random, seconds: float, victim: str, tally: Counter[str], doing: str) -> None:
    driver = job.start(*(["resume=true"] if job.script == "run.py" else []))
    is_killed = kill_after(rng.uniform(0, seconds), driver, job.cwd, victim)
    ended = finish(driver, LIMIT_S)
    if is_killed:
        tally[f"kill -9 of {victim} during {doing}"] += 1
    if ended.code != KILLED:
        assert_clear(ended, 1 if ended.code else 0)


VICTIMS = ["PostgreSQL", "a client of PostgreSQL"]


def test_what_was_ingested_stays_and_the_rest_follows(
    job: Callable[..., Job], collection: Path, folder: Path, rng: Random, tally: Counter[str]
) -> None:
    dataset = ["dataset=beir", f"dataset.path={collection}"]
    ingest = job(*dataset, *INGEST, "store=postgres", cwd=folder, EMBED_LOG=str(folder / "embedded"))
    ingest = Job(ingest.arguments, ingest.cwd, ingest.environment, "scripts/ingest.py")
    for victim in VICTIMS * 3:
        run_killed(ingest, rng, 4.0, victim, tally, "ingestion")
    assert_clear(ingest.run(), 0)
    with EmbeddedServer(folder / "results" / "postgres") as server, PostgresDatabase(server.dsn) as database:
        assert database.open("tiny", HashingEmbedder(256)).counts() == StoreCounts(documents=11, chunks=11)

    search = [*dataset, f"dataset.scores={collection}/scores.run", "retriever=postgres", "retriever.collection=tiny"]
    command = [*search, "estimator=baseline", *SLOW]
    undisturbed = job(*command, cwd=folder)
    assert_clear(undisturbed.run(), 0)
    whole = content(undisturbed.out)
    for place, victim in enumerate(VICTIMS * 2):
        # In the same working directory, where the store is.
        undisturbed.out.rename(folder / f"out{place}")
        for _ in range(2):
            run_killed(undisturbed, rng, 5.0, victim, tally, "retrieval")
        assert_clear(undisturbed.resume(), 0)
        assert_same_results(undisturbed.out, whole)
