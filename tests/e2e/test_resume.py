"""Interrupted runs and sweeps: finished queries are kept, none is lost or done twice, and no worker is left."""

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from command_line import finish, finished_queries
from patience import wait_until

from experiments.publish.folders import LOCK, locked

Run = Callable[..., SimpleNamespace]
SLOW = ["reranker._target_=misbehaving.Slow", "+reranker.seconds=0", "budget.max_reranker_docs=4", "tracking=none"]
RESULTS = ("run.trec", "curve.csv", "per_query.parquet", "traces.jsonl.gz", "curve.png", "config.yaml")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.fixture
def slow(tiny: list[str], tmp_path: Path) -> SimpleNamespace:
    """The command of a run of 4 queries, and where it logs what it reranked."""
    return SimpleNamespace(
        arguments=[*tiny, *SLOW, "hydra.run.dir=out"], log=tmp_path / "log", cwd=tmp_path, out=tmp_path / "out"
    )


@pytest.fixture
def hanging(slow: SimpleNamespace, start: Callable) -> Callable[..., subprocess.Popen[str]]:
    """Starts it; it hangs at its third query, when it has finished one."""

    def begin(*more: str) -> subprocess.Popen[str]:
        process = start(*slow.arguments, *more, cwd=slow.cwd, RERANK_LOG=str(slow.log), HANG_AT="q3")
        wait_until(lambda: finished_queries(slow.out) or process.poll() is not None)
        return process

    return begin


@pytest.fixture
def interrupted(slow: SimpleNamespace, hanging: Callable[..., subprocess.Popen[str]]) -> Callable[..., SimpleNamespace]:
    """Starts it, sends a signal while it hangs, and waits for its end."""

    def interrupt(number: int, *more: str) -> SimpleNamespace:
        process = hanging(*more)
        os.killpg(process.pid, number)
        return SimpleNamespace(**vars(finish(process)), kept=finished_queries(slow.out))

    return interrupt


def test_a_run_killed_with_kill_9_continues_where_it_was(
    slow: SimpleNamespace, interrupted: Callable, main: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = interrupted(signal.SIGKILL)
    assert killed.code == -signal.SIGKILL
    assert 1 <= len(killed.kept) < 4
    journal = slow.out / "journal.jsonl"
    assert (slow.out / LOCK).exists()  # no longer held, so it stops nobody
    journal.write_bytes(journal.read_bytes() + b'{"query_id":"q4","doc_ids":["hea')  # as if cut in mid-write
    before = Counter(slow.log.read_text().split())

    monkeypatch.setenv("RERANK_LOG", str(slow.log))
    common = [a for a in slow.arguments if not a.startswith("hydra.run.dir")]
    left = contents(slow.out)
    table = slow.cwd / "tiny" / "scores.run"
    sound = table.read_bytes()
    table.write_bytes(sound.replace(b"0.1", b"0.2", 1))
    refused = main(*common, f"hydra.run.dir={slow.out}", "resume=true")
    assert refused.code == 2
    assert f"journal.jsonl' was begun with other data: '{table}' has changed since" in refused.err
    assert contents(slow.out) == {name: left[name] for name in left if name != LOCK}
    table.write_bytes(sound)
    resumed = main(*common, f"hydra.run.dir={slow.out}", "resume=true")
    assert resumed.code == 0, resumed.err
    assert not journal.exists()
    again = Counter(slow.log.read_text().split()) - before
    assert {again[query] for query in killed.kept} == {2}  # a batch for each baseline, none for the policy
    assert set(again) | set(killed.kept) == {"q1", "q2", "q3", "q4"}

    whole = main(*common, "hydra.run.dir=whole")
    for name in RESULTS[:-1]:
        assert (slow.out / name).read_bytes() == (whole.cwd / "whole" / name).read_bytes(), name

    done = main(*common, f"hydra.run.dir={slow.out}", "resume=true")
    assert (done.code, done.err, done.lines[-1]) == (0, "nothing to do: this run is complete\n", str(slow.out))


@pytest.mark.parametrize(
    ("number", "more"),
    [(signal.SIGINT, []), (signal.SIGINT, ["executor=joblib", "executor.n_jobs=1"]), (signal.SIGTERM, [])],
)
def test_ctrl_c_and_sigterm_keep_what_is_finished_and_say_how_to_go_on(
    interrupted: Callable, slow: SimpleNamespace, number: int, more: list[str]
) -> None:
    ended = interrupted(number, *more)
    assert ended.code == 130
    assert 1 <= len(ended.kept) < 4
    assert ended.err == (
        f"error: interrupted; finished queries are kept: repeat the command with hydra.run.dir={slow.out} resume=true\n"
    )


def test_another_configuration_or_other_data_may_not_continue_a_run(
    main: Run, tiny: list[str], collection: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "done"
    assert main(*tiny, f"hydra.run.dir={folder}").code == 0
    before = contents(folder)
    refused = main(*tiny, f"hydra.run.dir={folder}", "resume=true", "seed=5")
    assert refused.code == 2
    assert "holds the results of another configuration" in refused.err
    judgments = collection / "qrels" / "test.tsv"
    judgments.write_text(judgments.read_text().replace("q4\tstar-1\t2", "q4\tstar-1\t1"))
    refused = main(*tiny, f"hydra.run.dir={folder}", "resume=true")
    assert refused.code == 2
    assert f"holds the results of other data: '{judgments}' has changed since" in refused.err
    assert contents(folder) == before
    (folder / "summary.json").unlink()
    (folder / "journal.jsonl").write_text('{"fingerprint": "of something else"}\n')
    refused = main(*tiny, f"hydra.run.dir={folder}", "resume=true")
    assert refused.code == 2
    assert "was begun with another configuration" in refused.err


def test_without_resume_a_folder_is_used_afresh(main: Run, tiny: list[str]) -> None:
    first = main(*tiny, "hydra.run.dir=out")
    again = main(*tiny, "hydra.run.dir=out", "budget.max_reranker_docs=2")
    assert (first.code, again.code) == (0, 0)
    summary = json.loads((again.cwd / "out" / "summary.json").read_text())
    assert summary["cost"]["charged"]["docs"] == 8


@pytest.mark.parametrize("place", ["run", "sweep", "job"])
def test_a_folder_in_use_is_refused_before_anything_in_it_is_touched(
    main: Run, tiny: list[str], tmp_path: Path, place: str
) -> None:
    folder = tmp_path / "out"
    assert main(*tiny, f"hydra.run.dir={folder}").code == 0
    for name in ("error.json", "mlflow_parent.json"):
        (folder / name).write_text("{}")
    arguments = {
        "run": [f"hydra.run.dir={folder}"],
        "sweep": ["-m", f"hydra.sweep.dir={folder}"],
        "job": ["-m", f"hydra.sweep.dir={tmp_path}", "hydra.sweep.subdir=out"],
    }
    with locked(folder):
        before = contents(folder)
        refused = main(*arguments[place], *tiny)
        assert contents(folder) == before
    assert refused.code == 2
    assert refused.err.startswith("error: ")
    assert f"'{folder}' is in use by another run: " in refused.err
    assert len(refused.err.splitlines()) == 1


@pytest.mark.parametrize("damage", [b"", b'{"fingerprint": "ab', b"[]", b"null", b"\xff\xfe{", b"[" * 100_000])
def test_a_damaged_summary_is_refused_and_left_alone(main: Run, tiny: list[str], tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "summary.json").write_bytes(damage)
    refused = main(*tiny, f"hydra.run.dir={tmp_path}/out", "resume=true", "tracking=mlflow", tracked=True)
    assert refused.code == 2
    assert refused.err.startswith(f"error: '{tmp_path}/out/summary.json' is damaged: ")
    assert len(refused.err.splitlines()) == 1
    assert contents(tmp_path / "out") == {"summary.json": damage}
    assert list(refused.cwd.rglob("*")) == []


def has_ended(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


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


def test_joblibs_workers_end_when_their_driver_is_killed(hanging: Callable[..., subprocess.Popen[str]]) -> None:
    process = hanging("executor=joblib", "executor.n_jobs=2", "executor.shards_per_job=2")
    workers = psutil.Process(process.pid).children()
    assert len(workers) >= 2
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    wait_until(lambda: all(map(has_ended, workers)))
