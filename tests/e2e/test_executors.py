"""The same configuration and data give the same bytes, in one process or many, today or tomorrow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_line import content

Run = Callable[..., SimpleNamespace]
DEMO = ["estimator=uncertainty", "scheduler=settled", "budget=tight", "tracking=none", "verbosity=0"]


@pytest.fixture(scope="module")
def inline(run_here: Run, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("inline")
    ended = run_here(*DEMO, "hydra.run.dir=out", cwd=folder)
    assert (ended.code, ended.err) == (0, "")
    return content(folder / "out")


EXECUTORS = {
    "again": [],
    "joblib": ["executor=joblib", "executor.n_jobs=2"],
    "ray": ["executor=ray", "executor.num_cpus=2", "executor.shards=2"],
}


@pytest.mark.parametrize("executor", list(EXECUTORS))
def test_results_are_the_same_bytes_whichever_executor(
    run: Run, tmp_path: Path, inline: dict[str, object], monkeypatch: pytest.MonkeyPatch, executor: str
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")  # of a cluster that nobody asked for
    ended = run(*DEMO, *EXECUTORS[executor], "hydra.run.dir=out", cwd=tmp_path)
    assert ended.code == 0, ended.err
    got = content(tmp_path / "out")
    assert sorted(got) == sorted(inline)
    for name in inline:
        assert got[name] == inline[name], name


def test_queries_that_share_a_models_calls_get_what_they_get_alone(
    main: Run, tiny: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    monkeypatch.setenv("RERANK_LOG", str(log))
    options = [*tiny, "reranker._target_=misbehaving.Joint"]
    alone = content(Path(main(*options).lines[-1]))
    assert not log.exists()
    assert content(Path(main(*options, "executor.together=3").lines[-1])) == alone
    shared = log.read_text().split()
    assert max(shared) == "3"
    main(*options, "executor.together=3", "budget.max_latency_ms=1000")  # a joint call would take each as long as all
    assert log.read_text().split() == shared


@pytest.mark.parametrize("executor", ["joblib", "ray"])
def test_bad_input_found_by_a_worker_is_told_as_if_there_were_none(
    run: Run, tiny: list[str], collection: Path, tmp_path: Path, executor: str
) -> None:
    scores = (collection / "scores.run").read_text().splitlines(keepends=True)
    (collection / "scores.run").write_text("".join(line for line in scores if not line.startswith("q2 Q0 blank-1")))
    cwd = tmp_path / "cwd"
    cwd.mkdir()
    ended = run(*tiny, *EXECUTORS[executor], "tracking=none", "hydra.run.dir=out", cwd=cwd)
    assert ended.code == 2
    said = ended.err.splitlines()[-1]  # a busy machine's Ray may say something of its own before
    assert said.startswith("error: score table")
    assert "holds no score for query 'q2' and document 'blank-1'" in said
    assert "Traceback" not in ended.err
