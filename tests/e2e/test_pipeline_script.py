"""python scripts/pipeline.py: a collection through the whole SuperPrompt pipeline."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import ir_measures
import pandas as pd
import pytest
from ir_measures import nDCG

Run = Callable[..., SimpleNamespace]

SCRIPT = "scripts/pipeline.py"
VIEWS = ("retrieval", "reranked", "a3", "a4")
BUDGETED = ("rerank_stage=budgeted", "budget=tight")


@pytest.fixture(scope="module")
def runs(run_here: Run, tmp_path_factory: pytest.TempPathFactory, empty_store: Path) -> SimpleNamespace:
    """A fixed depth and a tracked budgeted run of the shipped collection, and a run of run.py."""
    cwd = tmp_path_factory.mktemp("pipeline")
    uri = f"sqlite:///{shutil.copy(empty_store, cwd)}"
    top = run_here(
        "rerank_stage=top",
        "retriever.limits.N2_RERANK_TOP_K=20",
        "tracking=none",
        "hydra.run.dir=top",
        script=SCRIPT,
        cwd=cwd,
    )
    ours = run_here(*BUDGETED, "hydra.run.dir=ours", script=SCRIPT, cwd=cwd, MLFLOW_TRACKING_URI=uri)
    harness = run_here("retriever=superprompt", "budget=tight", "tracking=none", "hydra.run.dir=harness", cwd=cwd)
    for ended in (top, ours, harness):
        assert (ended.code, ended.err) == (0, "")
    folders = {name: cwd / name for name in ("top", "ours", "harness")}
    return SimpleNamespace(cwd=cwd, uri=uri, said=ours.out, **folders)


def summary(folder: Path) -> dict:
    return json.loads((folder / "summary.json").read_text())


def test_the_folder_is_a_runs_folder_with_a_ranking_for_each_view(runs: SimpleNamespace) -> None:
    names = {file.name for file in runs.ours.iterdir()}
    plain = {file.name for file in runs.harness.iterdir()}
    assert names == plain | {f"run.{view}.trec" for view in VIEWS}
    assert (runs.ours / "run.trec").read_bytes() == (runs.ours / "run.a4.trec").read_bytes()


def test_the_measures_of_a_view_are_those_of_its_run_file(runs: SimpleNamespace) -> None:
    qrels = pd.read_csv(Path(__file__).parents[2] / "datasets/demo/qrels/test.tsv", sep="\t", dtype={0: str, 1: str})
    qrels.columns = ["query_id", "doc_id", "relevance"]
    table = pd.read_parquet(runs.ours / "per_query.parquet").set_index("query_id")
    for view in VIEWS:
        ranked = list(ir_measures.read_trec_run(str(runs.ours / f"run.{view}.trec")))
        expected = ir_measures.calc_aggregate([nDCG @ 10], qrels, ranked)[nDCG @ 10]
        figures = summary(runs.ours)["views"][view]
        assert figures["measures"]["nDCG@10"] == pytest.approx(expected)
        assert table[f"{view}/nDCG@10"].mean() == pytest.approx(expected)
        low, high = figures["interval"]["nDCG@10"]
        assert low < expected < high
    assert summary(runs.ours)["measures"] == summary(runs.ours)["views"]["a4"]["measures"]


def test_the_budget_holds_and_what_the_final_selection_may_hold(runs: SimpleNamespace) -> None:
    table = pd.read_parquet(runs.ours / "per_query.parquet")
    assert table["charged_docs"].max() == 20
    assert table["context_docs"].max() <= 24


def test_the_terminal_shows_view_by_measure(runs: SimpleNamespace) -> None:
    docs = summary(runs.ours)["cost_per_query"]["charged"]["docs"]
    assert f"views; {docs:.1f} documents reranked per query" in runs.said
    lines = {line.split()[0]: line for line in runs.said.splitlines() if line.strip()}
    for view in VIEWS:
        assert f"{summary(runs.ours)['views'][view]['measures']['nDCG@10']:.4f}" in lines[view]
    assert runs.said.splitlines()[-1] == str(runs.ours)


def test_mlflow_gets_the_measures_of_every_view(runs: SimpleNamespace) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=runs.uri)
    tracked = client.get_run(summary(runs.ours)["mlflow_run_id"])
    for view in VIEWS:
        logged = tracked.data.metrics[f"{view}/nDCG_10"]
        assert logged == pytest.approx(summary(runs.ours)["views"][view]["measures"]["nDCG@10"])
    assert tracked.data.tags["rerank_stage"] == "budgeted"
    assert tracked.data.tags["retriever"] == "superprompt"
    artifacts = {item.path for item in client.list_artifacts(tracked.info.run_id)}
    assert {f"run.{view}.trec" for view in VIEWS} <= artifacts


def test_pipeline_runs_are_compared_with_each_other_and_with_other_runs(runs: SimpleNamespace, run_here: Run) -> None:
    run_id = summary(runs.ours)["mlflow_run_id"]
    ended = run_here(
        "top",
        run_id,
        "harness",
        "--out",
        "compared",
        script="scripts/compare.py",
        cwd=runs.cwd,
        MLFLOW_TRACKING_URI=runs.uri,
    )
    assert ended.code == 0, ended.err
    table = pd.read_csv(runs.cwd / "compared" / "compare.csv").set_index("policy")
    for name, folder in (("top", runs.top), (run_id[:8], runs.ours), ("harness", runs.harness)):
        assert table.loc[name, "nDCG@10"] == pytest.approx(summary(folder)["measures"]["nDCG@10"], abs=1e-5)
    assert 0 <= table.loc[run_id[:8], "nDCG@10_p_t_holm"] <= 1
    assert (runs.cwd / "compared" / "report.html").is_file()


def test_the_first_stage_of_the_harness_is_the_pipelines(runs: SimpleNamespace) -> None:
    ranked = pd.read_csv(runs.harness / "run.trec", sep=" ", header=None, dtype=str)
    found = pd.read_csv(runs.ours / "run.retrieval.trec", sep=" ", header=None, dtype=str)
    pools = [{query: set(group[2]) for query, group in table.groupby(0)} for table in (ranked, found)]
    assert all(pools[0][query] <= pools[1][query] for query in pools[0])


def test_two_runs_give_the_same_bytes_whoever_does_the_work(runs: SimpleNamespace, run_here: Run) -> None:
    workers = ("executor=joblib", "executor.n_jobs=2")
    ended = run_here(*BUDGETED, *workers, "tracking=none", "hydra.run.dir=again", script=SCRIPT, cwd=runs.cwd)
    assert ended.code == 0, ended.err
    for file in runs.ours.iterdir():
        if file.name not in ("summary.json", "config.yaml"):
            assert file.read_bytes() == (runs.cwd / "again" / file.name).read_bytes(), file.name
    first, second = summary(runs.ours), summary(runs.cwd / "again")
    differ = {key for key in first if first[key] != second[key]}
    assert differ <= {"wall_s", "mlflow_run_id", "overrides"}


def test_a_finished_run_is_not_done_again(runs: SimpleNamespace, run_here: Run) -> None:
    before = (runs.top / "run.trec").stat().st_mtime_ns
    ended = run_here(
        "rerank_stage=top", "retriever.limits.N2_RERANK_TOP_K=20", "tracking=none", "hydra.run.dir=top", "resume=true",
        script=SCRIPT, cwd=runs.cwd,
    )  # fmt: skip
    assert (ended.code, ended.err) == (0, "nothing to do: this run is complete\n")
    assert (runs.top / "run.trec").stat().st_mtime_ns == before


BAD = {
    "an unknown rerank stage": (["rerank_stage=best"], ["'rerank_stage/best'", "budgeted", "none", "top"]),
    "a rerank stage by its former name": (["policy=top"], ["'policy': it is rerank_stage now"]),
    "an unknown option": (["+foo=1"], ["unknown option 'foo'", "rerank_stage", "llm"]),
    "a budget for a fixed depth": (
        ["rerank_stage=top", "budget=tight"],
        ["budget.max_reranker_docs=20", "budget=unlimited"],
    ),
    "another first stage": (["retriever=bm25"], ["retriever=bm25", "allowed is superprompt"]),
    "a limit of nothing": (["retriever.limits.N1_RETR_MAX_CANDIDATES=0"], ["N1_RETR_MAX_CANDIDATES=0", "greater than"]),
    "a dataset that is not there": (["dataset=beir", "dataset.path=/no/such"], ["'/no/such' does not exist"]),
    "no score table": (["reranker.scores=null"], ["reranker.scores is missing"]),
    "a model without a name": (["llm=local"], ["llm.model is missing"]),
    "a forecast": (["dry_run=true"], ["dry_run=true", "allowed is false"]),
}


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """The script's command line without a process of its own, in an empty folder."""
    from experiments.cli.main import main

    cwd = tmp_path / "cwd"
    cwd.mkdir()
    monkeypatch.chdir(cwd)

    def call(*arguments: str) -> SimpleNamespace:
        monkeypatch.setattr(sys, "argv", [SCRIPT, *arguments])
        code = main("pipeline")
        out, err = capfd.readouterr()
        return SimpleNamespace(code=code, out=out, err=err, cwd=cwd)

    return call


def refused(ended: SimpleNamespace, cwd: Path, *said: str) -> None:
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: ")
    assert len(ended.err.splitlines()) == 1, ended.err
    for words in said:
        assert words in ended.err
    assert list(cwd.iterdir()) == []


@pytest.mark.parametrize("case", list(BAD))
def test_bad_input_ends_with_one_line_and_code_2(pipeline: Run, case: str) -> None:
    options, said = BAD[case]
    ended = pipeline(*options, "tracking=none")
    refused(ended, ended.cwd, *said)


def test_so_does_the_real_command(run: Run, tmp_path: Path) -> None:
    refused(
        run("rerank_stage=top", "budget=tight", script=SCRIPT, cwd=tmp_path), tmp_path, "rerank_stage=top has no budget"
    )
