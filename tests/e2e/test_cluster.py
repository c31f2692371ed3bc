"""A real Ray cluster of several nodes on this machine, of which one process after the other is killed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from chaos_runs import Job, assert_clear, assert_same_results, finished_queries, processes
from command_line import content, finish
from patience import wait_until

OPTIONS = [
    "estimator._target_=misbehaving.Held",
    "reranker._target_=misbehaving.Slow",
    "+reranker.seconds=0.1",
    "scheduler.batch_size=2",
    "tracking=none",
]
WORKER = "ray::in_worker"


@pytest.fixture
def released(tmp_path: Path) -> Path:
    """The queries that may begin, each a file: the others are in workers' hands until then, however long it takes."""
    folder = tmp_path / "released"
    folder.mkdir()
    return folder


@pytest.fixture
def cluster(
    environment: dict[str, str], released: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """A head, which works on nothing, and two nodes of two cores."""
    pytest.importorskip("ray", reason="needs the extra ray")
    from ray.cluster_utils import Cluster

    own = {"RELEASED": str(released), "RERANK_LOG": str(tmp_path / "cluster" / "log")}
    for name, value in {**environment, **own}.items():
        monkeypatch.setenv(name, value)  # the workers' environment is that of the nodes
    soon = {"health_check_period_ms": 300}  # between looks at whether a node is there, of which five have to fail
    head = {"num_cpus": 0, "include_dashboard": False, "_system_config": soon}
    made = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(2):
            made.add_node(num_cpus=2, num_gpus=1)  # one that Ray counts, and nobody uses
        yield made
    finally:
        made.shutdown()


def test_a_cluster_goes_on_without_a_worker_a_node_and_at_last_its_driver(
    run_here: Callable[..., SimpleNamespace],
    tiny: list[str],
    tmp_path: Path,
    environment: dict[str, str],
    released: Path,
    request: pytest.FixtureRequest,
) -> None:
    undisturbed = run_here(*tiny, *OPTIONS, "hydra.run.dir=out", cwd=tmp_path, RERANK_LOG=str(tmp_path / "log"))
    assert (undisturbed.code, undisturbed.err) == (0, "")

    cluster = request.getfixturevalue("cluster")  # whose environment is not that of the undisturbed run
    options = ["executor=ray", f"executor.address={cluster.address}", "executor.shards=4", "executor.num_gpus=0.25"]
    job = Job([*tiny, *OPTIONS, *options], tmp_path / "cluster", environment)
    driver = job.start()
    request.addfinalizer(lambda: end(driver))

    def wait(condition: Callable[[], object]) -> None:
        wait_until(lambda: driver.poll() is not None or bool(condition()))
        assert driver.poll() is None, driver.communicate()

    def finished(query_id: str) -> None:
        (released / query_id).touch()
        wait(lambda: query_id in finished_queries(job.out))

    wait(lambda: len(processes(WORKER)) == 4)
    finished("q1")
    wait(lambda: len(processes(WORKER)) == 3)
    kill(processes(WORKER)[:1])
    wait(lambda: len(processes(WORKER)) == 3)
    (released / "q2").touch()
    wait(lambda: "q2" in job.log.read_text().split())
    kill(processes(WORKER))  # one of them is at work on a batch
    finished("q2")
    wait(lambda: len(processes(WORKER)) == 2)
    cluster.remove_node(max(cluster.worker_nodes, key=working), allow_graceful=False)
    wait(lambda: sum(map(working, cluster.worker_nodes)) == 2)
    finished("q3")
    end(driver)
    wait_until(lambda: not processes(WORKER))
    assert set(finished_queries(job.out)) == {"q1", "q2", "q3"}
    (released / "q4").touch()
    assert_clear(job.resume(), 0)
    assert_same_results(job.out, content(tmp_path / "out"))


def end(driver: subprocess.Popen[str]) -> None:
    """Kill it, if it still runs, and wait for that."""
    if driver.poll() is None:
        os.killpg(driver.pid, signal.SIGKILL)
        finish(driver)


def kill(victims: Sequence[psutil.Process]) -> None:
    """Kill them, and wait for that."""
    for victim in victims:
        victim.kill()
    psutil.wait_procs(victims)


def working(node: Any) -> int:
    """How many workers of a node are at work."""
    return len(processes(WORKER, node.all_processes["raylet"][0].process.pid))
