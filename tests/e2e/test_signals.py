"""Signals: SIGTERM ends a run and a sweep as Ctrl-C does, and workers end with a driver that was killed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from command_line import finish, finished_queries
from patience import wait_until

SLOW = ["reranker._target_=misbehaving.Slow", "+reranker.seconds=0", "budget.max_reranker_docs=4"]


def children(pid: int) -> list[int]:
    """Processes whose parent is ``pid``."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def started(start: Callable, folder: Path, *overrides: str) -> subprocess.Popen[str]:
    """A run into ``out`` that hangs at its third query, when it has finished one."""
    out, log = folder / "out", str(folder / "log")
    words = [*overrides, *SLOW, "tracking=none", f"hydra.run.dir={out}"]
    process = start(*words, cwd=folder, HANG_AT="q3", RERANK_LOG=log)
    wait_until(lambda: finished_queries(out) or process.poll() is not None)
    return process


def test_sigterm_ends_a_run_as_ctrl_c_does(tiny: list[str], start: Callable, tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = started(start, tmp_path, *tiny)
    os.kill(process.pid, signal.SIGTERM)
    ended = finish(process)
    assert ended.code == 130
    assert f"error: interrupted; finished queries are kept: repeat the command with hydra.run.dir={out}" in ended.err


def test_sigterm_leaves_a_sweep_a_killed_parent_and_a_partial_table(
    tiny: list[str], start: Callable, tmp_path: Path, empty_store: Path
) -> None:
    from mlflow import MlflowClient

    folder, uri = tmp_path / "sweep", f"sqlite:///{tmp_path}/mlflow.db"
    (tmp_path / "mlflow.db").write_bytes(empty_store.read_bytes())
    slow = ["reranker._target_=misbehaving.Slow", "+reranker.seconds=0,600", "budget=4"]
    common = [*tiny, *slow, f"tracking.uri={uri}", f"hydra.sweep.dir={folder}"]
    process = start("-m", *common, cwd=tmp_path, RERANK_LOG=str(tmp_path / "log"))
    wait_until(lambda: (folder / "1" / "journal.jsonl").exists() or process.poll() is not None)
    os.kill(process.pid, signal.SIGTERM)
    ended = finish(process)
    assert ended.code == 130, ended.err
    assert "interrupted" in ended.err
    assert "partial: 1 of 2 jobs finished, then the sweep was interrupted" in (folder / "sweep.md").read_text()
    client = MlflowClient(tracking_uri=uri)
    runs = client.search_runs([client.get_experiment_by_name("ragtune").experiment_id])
    assert {run.info.status for run in runs} == {"KILLED", "FINISHED"}
    [parent] = [run for run in runs if run.data.tags.get("sweep") == "true"]
    assert parent.info.status == "KILLED"
    assert parent.data.tags["partial"] == "1 of 2 jobs"
    assert "sweep.csv" in {file.path for file in client.list_artifacts(parent.info.run_id)}


def test_joblibs_workers_end_when_their_driver_is_killed(tiny: list[str], start: Callable, tmp_path: Path) -> None:
    process = started(start, tmp_path, *tiny, "executor=joblib", "executor.n_jobs=2", "executor.shards_per_job=2")
    workers = children(process.pid)
    assert len(workers) >= 2
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    wait_until(lambda: not any(map(is_running, workers)))
