"""The same bytes in one process or many, today or tomorrow; sweeps of real runs, and a sampler by the headline."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import yaml
from command_line import content

from ragtune.core.controller import RAGtuneController
from ragtune.schedulers.one_shot import OneShotScheduler

Run = Callable[..., SimpleNamespace]
DEMO = ["experiment=settled", "dataset.every=5", "budget=tight", "tracking=none", "verbosity=0"]


@pytest.fixture(scope="module")
def inline(run_here: Run, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("inline")
    ended = run_here(*DEMO, "hydra.run.dir=out", cwd=folder)
    assert (ended.code, ended.err) == (0, "")
    return content(folder / "out")


EXECUTORS = {
    "joblib": ["executor=joblib", "executor.n_jobs=2"],
    "ray": ["executor=ray", "executor.num_cpus=1", "executor.shards=2"],
}


@pytest.mark.parametrize("executor", list(EXECUTORS))
def test_results_are_the_same_bytes_whichever_executor(
    run_here: Run, tmp_path: Path, inline: dict[str, object], monkeypatch: pytest.MonkeyPatch, executor: str
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")  # of a cluster that nobody asked for
    ended = run_here(*DEMO, *EXECUTORS[executor], "hydra.run.dir=out", cwd=tmp_path)
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
    run_here: Run, tiny: list[str], collection: Path, tmp_path: Path, executor: str
) -> None:
    scores = (collection / "scores.run").read_text().splitlines(keepends=True)
    (collection / "scores.run").write_text("".join(line for line in scores if not line.startswith("q2 Q0 blank-1")))
    cwd = tmp_path / "cwd"
    cwd.mkdir()
    ended = run_here(*tiny, *EXECUTORS[executor], "tracking=none", "hydra.run.dir=out", cwd=cwd)
    assert ended.code == 2
    said = ended.err.splitlines()[-1]  # a busy machine's Ray may say something of its own before
    assert said.startswith("error: score table")
    assert "holds no score for query 'q2' and document 'blank-1'" in said
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("executor", ["inline", "joblib"])
def test_a_query_is_replayed_once_for_the_budgets_of_a_sweep_in_one_process(
    main: Run, tiny: list[str], monkeypatch: pytest.MonkeyPatch, executor: str
) -> None:
    asked: list[int] = []
    run_under = RAGtuneController.run_under

    def noted(self: RAGtuneController, *given: Any) -> Any:
        if not isinstance(self.loop._scheduler, OneShotScheduler):  # which the baselines are
            asked.append(len(given[1]))
        return run_under(self, *given)

    monkeypatch.setattr(RAGtuneController, "run_under", noted)
    common = [*tiny[:-1], "estimator=uncertainty", f"executor={executor}", "verbosity=0"]
    assert main("-m", *common, "budget=2,6,4", "hydra.sweep.dir=sweep").code == 0
    assert asked == ([3] * 4 if executor == "inline" else [])
    for job, budget in enumerate((2, 6, 4)):
        assert main(*common, f"budget={budget}", "hydra.run.dir=single", "resume=false").code == 0
        for name in ("run.trec", "traces.jsonl.gz", "per_query.parquet", "curve.csv"):
            assert Path(f"sweep/{job}/{name}").read_bytes() == Path("single", name).read_bytes()


def test_a_sweep_draws_no_pictures_of_its_jobs_and_calls_hydras_callbacks(main: Run, tiny: list[str]) -> None:
    callback = "+hydra.callbacks.x._target_=hydra.experimental.callbacks.PickleJobInfoCallback"
    grid = ["experiment=glob(settl*)", "budget=2,4", callback, "hydra.output_subdir=kept"]
    assert main("-m", *tiny[:-1], *grid, "tracking=none", "hydra.sweep.dir=sweep").code == 0
    assert Path("sweep/0/curve.csv").is_file()
    assert len(list(Path("sweep").glob("[01]/kept/job_return.pickle"))) == 2
    assert not list(Path("sweep").rglob("*.png"))


def test_optunas_sampler_looks_for_the_best_headline_and_goes_on_where_it_was(main: Run, tiny: list[str]) -> None:
    pytest.importorskip("hydra_plugins.hydra_optuna_sweeper", reason="needs the extra optuna")
    space = [*tiny[:-1], "estimator=uncertainty", "scheduler.acquisition.kappa=interval(0,2)", "budget=3"]
    sweep = ["hydra/sweeper=tune", "hydra.sweep.dir=sweep", "verbosity=0"]
    ended = main("-m", *space, *sweep, "hydra.sweeper.n_trials=2")
    assert ended.code == 0, ended.err
    ended = main("-m", *space, *sweep, "hydra.sweeper.n_trials=3", "resume=true")
    assert ended.code == 0, ended.err
    assert ended.err.count("nothing to do") == 2  # the same proposals: their seed is the run's
    table = pd.read_csv("sweep/sweep.csv")
    found = yaml.safe_load(Path("sweep/optimization_results.yaml").read_text())
    assert found["best_value"] == table["nDCG@10"].max()
    assert found["best_params"]["scheduler.acquisition.kappa"] in table["scheduler.acquisition.kappa"].tolist()
    assert "resume" not in table


def test_submitits_jobs_are_processes_that_find_this_checkout(run_here: Run, tiny: list[str], tmp_path: Path) -> None:
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher", reason="needs the extra submitit")
    grid = [*tiny[:-1], "estimator=baseline", "budget.max_reranker_docs=5,-1", "hydra.sweep.dir=sweep"]
    ended = run_here("-m", *grid, "hydra/launcher=submitit_local", "tracking=none", "verbosity=0", cwd=tmp_path)
    assert ended.code == 2  # one is refused by its process as it would be without submitit
    assert ended.err.splitlines()[-1] == "error: failed jobs: 1"
    assert pd.read_csv(tmp_path / "sweep" / "sweep.csv")["job"].tolist() == [0]
    assert len(list((tmp_path / "sweep" / ".submitit").glob("*/*_submitted.pkl"))) >= 2


@pytest.mark.parametrize("launcher", ["joblib", "submitit_local"])
def test_a_job_whose_process_dies_is_told_of_in_one_line(
    run_here: Run, tiny: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launcher: str
) -> None:
    pytest.importorskip(f"hydra_plugins.hydra_{launcher.partition('_')[0]}_launcher", reason="needs the extra dev")
    monkeypatch.setattr("submitit.core.core.Job._results_timeout_s", 0)  # else 15 s for a slow network file system
    grid = [*tiny[:-1], "budget=2,4", "reranker._target_=misbehaving.Deadly", "hydra.sweep.dir=sweep"]
    ended = run_here("-m", *grid, f"hydra/launcher={launcher}", "tracking=none", "verbosity=0", cwd=tmp_path)
    assert ended.code == 1
    assert "Traceback" not in ended.err
    died = "error: a worker process died, killed or out of memory ("
    (line,) = [line for line in ended.err.splitlines() if line.startswith(died)]
    assert line.endswith(f": repeat the command with hydra.sweep.dir={tmp_path / 'sweep'} resume=true")
