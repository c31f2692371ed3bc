"""kill -9 of worker processes: a clear end or a recovery, and a resumption that is byte-identical."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import psutil
import pytest
from chaos_runs import Job, assert_clear, assert_same_results
from command_line import content, finish, finished_queries
from patience import HANG_S, wait_until

from experiments.replay.executors.shardfiles import ShardFiles

SLOW = ["reranker._target_=misbehaving.Slow", "+reranker.seconds=0.2", "scheduler.batch_size=3", "tracking=none"]
LONG = ["reranker._target_=misbehaving.Slow", "+reranker.seconds=0.7", "scheduler.batch_size=2", "tracking=none"]
EXECUTORS = {
    "joblib": (5, ["executor=joblib", "executor.n_jobs=2"], "loky"),
    "ray": (3, ["executor=ray", "executor.num_cpus=2", "executor.shards=4"], "ray::"),
}
"""How many kills, the options, and what a worker's command line holds."""


def workers(driver: subprocess.Popen[str], mark: str) -> list[psutil.Process]:
    found = psutil.Process(driver.pid).children(recursive=True) if driver.poll() is None else []
    return [process for process in found if mark in _command(process)]


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


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


@pytest.mark.parametrize("actors", [0, 2])
def test_a_cluster_goes_on_without_an_actor_a_worker_a_node_and_at_last_its_driver(
    actors: int,
    job: Callable[..., Job],
    tiny: list[str],
    tmp_path: Path,
    environment: dict[str, str],
    tally: Counter[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ray.cluster_utils import Cluster

    undisturbed = job(*tiny, *LONG, cwd=tmp_path / "undisturbed")
    assert_clear(undisturbed.run(), 0)
    storage, cwd = tmp_path / "storage", tmp_path / "cluster"
    for name, value in {**environment, "RERANK_LOG": str(cwd / "log")}.items():
        monkeypatch.setenv(name, value)  # the workers' environment is that of the nodes
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
        options = ["executor=ray", f"executor.address={cluster.address}", "executor.shards=100"]
        options += [f"executor.actors={actors}"]
        killed = job(*tiny, *LONG, *options, f"executor.storage={storage}", cwd=cwd)
        driver = killed.start()
        _await(driver, lambda: _stored(storage) and _ray_workers())
        for kind in (_WORKER, _ACTOR) if actors else (_WORKER,):
            os.kill(_ray_workers(kind)[0].pid, signal.SIGKILL)
        before = len(_stored(storage))
        _await(driver, lambda: len(_stored(storage)) > before)
        cluster.remove_node(nodes[0], allow_graceful=False)
        before = len(_stored(storage))
        _await(driver, lambda: len(_stored(storage)) > before)
        os.killpg(driver.pid, signal.SIGKILL)
        finish(driver, HANG_S)
        wait_until(lambda: not _ray_workers() and not _ray_workers(_ACTOR))
        assert_clear(killed.resume(_stored(storage)), 0)
    finally:
        cluster.shutdown()
    assert_same_results(killed.out, content(undisturbed.out))
    assert not any(storage.iterdir()), "files of a complete run were left"
    for what in ("workers", "nodes", "drivers", *(["actors"] if actors else [])):
        tally[f"kill -9 of {what} of a Ray cluster"] += 1


def test_actors_that_die_at_every_batch_end_the_run_and_cost_no_document_its_score(
    job: Callable[..., Job], tiny: list[str], tmp_path: Path
) -> None:
    options = ["executor=ray", "executor.num_cpus=2", "executor.shards=2", "executor.actors=2"]
    ended = job(*tiny, "reranker._target_=misbehaving.Deadly", *options, "tracking=none", cwd=tmp_path / "cwd").run()
    assert_clear(ended, 1)
    assert "repeat the command" in ended.err


_WORKER, _ACTOR = "ray::in_worker", "ray::RerankActor"


def _ray_workers(kind: str = _WORKER) -> list[psutil.Process]:
    children = psutil.Process().children(recursive=True)
    return [process for process in children if kind in _command(process)]


def _stored(storage: Path) -> set[str]:
    """The queries of finished shards."""
    shards = (shard for run in storage.glob("*") for shard in ShardFiles(str(storage), run.name).finished())
    return {record.query_id for shard in shards for record in shard}


def _await(driver: subprocess.Popen[str], condition: Callable[[], object]) -> None:
    wait_until(lambda: driver.poll() is not None or bool(condition()))
    assert driver.poll() is None, driver.communicate()
