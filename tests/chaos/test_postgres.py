"""kill -9 of PostgreSQL and of its clients while documents are ingested and searched."""

import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import psutil
import pytest
from chaos_runs import KILLED, Job, assert_clear, assert_same_results
from command_line import content, finish
from patience import HANG_S

from ragtune.canonical.store.database import PostgresDatabase
from ragtune.canonical.store.embedded import EmbeddedServer
from ragtune.canonical.types import StoreCounts
from ragtune.embedders.hashing import HashingEmbedder

INGEST = ["embedder._target_=misbehaving.SlowEmbedder", "batch=2"]
SLOW = ["reranker._target_=misbehaving.Slow", "+reranker.seconds=0.2", "scheduler.batch_size=3", "tracking=none"]


@pytest.fixture(autouse=True)
def no_server_is_left(folder: Path) -> Iterator[None]:
    yield
    assert server_pid(folder) is None or not psutil.pid_exists(server_pid(folder) or 0), "a server was left running"


def server_pid(cwd: Path) -> int | None:
    with suppress(OSError, ValueError, IndexError):
        return int((cwd / "results" / "postgres" / "pgdata" / "postmaster.pid").read_text().splitlines()[0])
    return None


def kill_after(seconds: float, driver: subprocess.Popen[str], cwd: Path, victim: str) -> bool:
    """Wait for the server, and kill it or its client so long afterwards; whether there was anything to kill."""
    deadline = time.monotonic() + HANG_S
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


def run_killed(job: Job, seconds: float, victim: str, tally: Counter[str], doing: str) -> bool:
    """Whether something was killed before the command had ended."""
    driver = job.start(*(["resume=true"] if job.script == "run.py" else []))
    is_killed = kill_after(seconds, driver, job.cwd, victim)
    ended = finish(driver, HANG_S)
    tally[f"kill -9 of {victim} during {doing}"] += is_killed
    if ended.code != KILLED:
        assert_clear(ended, 1 if ended.code else 0)
    return is_killed


VICTIMS = ["PostgreSQL", "a client of PostgreSQL"]
KILLS = 3
"""Of each victim, while documents are ingested and again while they are searched."""


def test_what_was_ingested_stays_and_the_rest_follows(
    job: Callable[..., Job], collection: Path, folder: Path, rng: Random, tally: Counter[str]
) -> None:
    dataset = ["dataset=beir", f"dataset.path={collection}"]
    command = job(*dataset, *INGEST, "store=postgres", cwd=folder, EMBED_LOG=str(folder / "embedded"))
    ingest = replace(command, script="scripts/ingest.py")
    for victim in VICTIMS:
        kills = place = 0
        while kills < KILLS:
            name, place = f"{victim[0].lower()}{place}", place + 1
            begun = replace(ingest, arguments=[*ingest.arguments, f"collection={name}"])
            kills += run_killed(begun, rng.uniform(0, 2.5), victim, tally, "ingestion")
            assert_clear(begun.run(), 0)
            assert stored(folder, name) == StoreCounts(documents=11, chunks=11)
    tally["collections that were whole after kills during ingestion"] += 2 * KILLS


def stored(folder: Path, name: str) -> StoreCounts:
    with EmbeddedServer(folder / "results" / "postgres") as server, PostgresDatabase(server.dsn) as database:
        return database.open(name, HashingEmbedder(256)).counts()


def test_a_search_that_loses_its_database_is_resumed_byte_by_byte(
    job: Callable[..., Job], collection: Path, folder: Path, rng: Random, tally: Counter[str]
) -> None:
    dataset = ["dataset=beir", f"dataset.path={collection}"]
    ingest = job(*dataset, "store=postgres", "collection=tiny", cwd=folder)
    assert_clear(replace(ingest, script="scripts/ingest.py").run(), 0)
    search = [*dataset, f"dataset.scores={collection}/scores.run", "retriever=postgres", "retriever.collection=tiny"]
    run = job(*search, "estimator=baseline", *SLOW, cwd=folder)  # all in one working directory, where the store is
    assert_clear(run.run(), 0)
    whole = content(run.out)
    for victim in VICTIMS:
        kills = 0
        while kills < KILLS:
            shutil.rmtree(run.out)
            kills += run_killed(run, rng.uniform(0, 3.5), victim, tally, "retrieval")
            assert_clear(run.resume(), 0)
            assert_same_results(run.out, whole)
    tally["searches resumed byte-identically after kills of PostgreSQL or its client"] += 2 * KILLS
