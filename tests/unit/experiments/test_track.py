"""Tracking: nothing of a run's files is lost on the way to MLflow."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
import yaml

from experiments.commands.relog import relog
from experiments.config.compose import compose
from experiments.evaluate.summary import Summary
from experiments.publish.described import NOTE, params, run_name
from experiments.publish.files import read_summary, write_summary
from experiments.publish.sweep_table import SweepFigures
from experiments.publish.track import ARTIFACTS, TRACKING_ERROR, MlflowTracking, TrackingError


@pytest.fixture
def steps() -> int:
    return 15


@pytest.fixture
def run_dir(tmp_path: Path, empty_store: Path, make_summary: Callable[..., Summary], steps: int) -> Path:
    """The files of a run whose configuration has 250 options and whose curve has so many steps, and a store."""
    (tmp_path / "db").mkdir()
    shutil.copy(empty_store, tmp_path / "db")
    folder = tmp_path / "sweep" / "0"
    folder.mkdir(parents=True)
    for name in ARTIFACTS:
        (folder / name).write_text("x")
    options = {"deep": {f"option {i}": i for i in range(245)}, "long": "v" * 9000, "odd@name": 1}
    tracking = {"_target_": "experiments.publish.track.MlflowTracking", "uri": store(tmp_path), "experiment": "tests"}
    (folder / "config.yaml").write_text(yaml.safe_dump({**options, "tracking": tracking}))
    write_summary(folder, make_summary(measures={"nDCG@10": 0.5, "P(rel=2)@5": 0.25}))
    measures = {"nDCG@10": [i / steps for i in range(steps)], "P(rel=2)@5": [0.1] * steps}
    costs = {"tokens": range(0, 10 * steps, 10), "usd": [i / 1000 for i in range(steps)]}
    pd.DataFrame({"documents": range(steps), **costs, **measures}).to_csv(folder / "curve.csv", index=False)
    return folder


def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/db/mlflow.db"


@pytest.fixture
def logged(run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    tracking = MlflowTracking(store(tmp_path), "tests")
    parent = tracking.start_sweep("sweep")
    run_id = tracking.log(run_dir, parent)
    client = tracking._connect()
    return SimpleNamespace(tracking=tracking, client=client, parent=parent, run=client.get_run(run_id), folder=run_dir)


@pytest.mark.parametrize("steps", [1500])
def test_mlflow_gets_everything_that_the_files_hold(logged: SimpleNamespace) -> None:
    data = logged.run.data
    assert logged.run.info.status == "FINISHED"
    # Parameters: MLflow takes 100 a call, the run has 250.
    assert [data.params[f"deep.option {i}"] for i in range(245)] == [str(i) for i in range(245)]
    assert len(data.params["long"]) == 6000
    assert data.params["odd_name"] == "1"
    tags = {"git_sha": "abc"}
    assert (tags | {"mlflow.parentRunId": logged.parent}).items() <= data.tags.items()
    assert data.metrics["nDCG_10"] == 0.5
    assert data.metrics["P_rel_2__5"] == 0.25
    assert data.metrics["charged_docs"] == 12.5
    assert "docs_to_99pct" not in data.metrics
    # The curve: MLflow takes 1,000 metrics a call; the step is documents reranked.
    history = logged.client.get_metric_history(logged.run.info.run_id, "curve/nDCG_10")
    assert sorted((m.step, m.value) for m in history) == [(i, pytest.approx(i / 1500)) for i in range(1500)]
    # What each step cost, to read the curve against.
    for name, last in (("cost/tokens", 14990), ("cost/usd", 1.499)):
        steps = {m.step: m.value for m in logged.client.get_metric_history(logged.run.info.run_id, name)}
        assert (len(steps), steps[0], steps[1499]) == (1500, 0, pytest.approx(last))
    assert {file.path for file in logged.client.list_artifacts(logged.run.info.run_id)} == set(ARTIFACTS)
    [dataset] = logged.run.inputs.dataset_inputs
    assert (dataset.dataset.name, dataset.dataset.digest) == ("tiny/test", "d" * 32)


def test_a_log_that_fails_midway_is_marked_as_failed(logged: SimpleNamespace) -> None:
    (logged.folder / "traces.jsonl.gz").unlink()
    with pytest.raises(TrackingError, match=r"traces\.jsonl\.gz"):
        logged.tracking.log(logged.folder, again=True)
    runs = logged.client.search_runs([logged.run.info.experiment_id], order_by=["attributes.start_time DESC"])
    assert [run.info.status for run in runs].count("FAILED") == 1


def test_a_job_that_notes_the_collection_at_the_same_moment_is_in_nobodys_way(run_dir: Path, tmp_path: Path) -> None:
    from sqlalchemy import Engine, event

    tracking = MlflowTracking(store(tmp_path), "tests")
    experiment = tracking._experiment_id
    meanwhile: list[str] = []

    @event.listens_for(Engine, "after_cursor_execute")
    def the_other_job_is_first(connection: object, cursor: object, statement: str, *rest: object) -> None:
        if "FROM datasets" in statement and not meanwhile:
            meanwhile.append("INSERT INTO datasets VALUES (?, ?, ?, ?, ?, ?, ?, ?)")
            values = ("other", int(experiment), "tiny/test", "d" * 32, "ragtune", "{}", None, "{}")
            with closing(sqlite3.connect(tmp_path / "db" / "mlflow.db")) as db, db:
                db.execute(meanwhile[0], values)

    try:
        run_id = tracking.log(run_dir)
    finally:
        event.remove(Engine, "after_cursor_execute", the_other_job_is_first)
    assert meanwhile
    run = tracking._connect().get_run(run_id)
    assert run.info.status == "FINISHED"
    assert [each.dataset.digest for each in run.inputs.dataset_inputs] == ["d" * 32]


def test_what_a_kill_left_unfinished_goes_when_the_files_are_logged_and_they_are_logged_once(
    logged: SimpleNamespace,
) -> None:
    finished, client = logged.run.info.run_id, logged.client

    def shown() -> dict[str, str]:
        runs = client.search_runs([logged.run.info.experiment_id])
        return {run.info.run_id: run.info.status for run in runs if run.info.run_id != logged.parent}

    # Killed after the run was finished, before its id was noted down.
    assert logged.tracking.log(logged.folder) == finished
    # Killed in between: the files are logged anew.
    client.update_run(finished, "RUNNING")
    anew = logged.tracking.log(logged.folder)
    assert shown() == {anew: "FINISHED"}
    # Other results in the same folder are another run.
    (logged.folder / "run.trec").write_text("y")
    other = logged.tracking.log(logged.folder)
    assert shown() == {anew: "FINISHED", other: "FINISHED"}


def test_parameters_name_the_choices_and_leave_out_what_says_nothing() -> None:
    config = compose(["experiment=settled", "budget=7", "+rerankers.llm={_target_: a.b.C, top: null, each: 1}"])
    told = params(config)
    assert (told["estimator"], told["scheduler"], told["budget"]) == ("uncertainty", "settled", "7 docs")
    assert (told["scheduler.acquisition"], told["estimator.vectors"]) == ("upper_confidence", "tfidf")
    assert told["budget.max_reranker_docs"] == 7
    assert told["rerankers.llm.each"] == 1
    assert not [name for name, value in told.items() if value is None or "_target_" in name or "_partial_" in name]
    assert not [name for name in told if name.startswith("tracking")]


def test_a_run_tells_what_it_found_in_mlflows_own_fields(logged: SimpleNamespace) -> None:
    tags = logged.run.data.tags
    assert logged.run.info.run_name == "baseline + greedy, unlimited, tiny/test"
    assert tags["mlflow.source.git.commit"] == "abc"
    assert (tags["mlflow.source.name"], tags["command"]) == ("run.py", "python run.py seed=0")
    assert tags["mlflow.user"]
    assert "| **baseline + greedy** | 12.5 | 0.5000" in tags["mlflow.note.content"]
    assert "charged_usd" in logged.run.data.metrics
    assert "actual_usd" not in logged.run.data.metrics


def test_an_experiment_has_a_saved_view_which_its_description_names_and_what_was_changed_stays(
    logged: SimpleNamespace,
) -> None:
    experiment = logged.client.get_experiment(logged.run.info.experiment_id)
    view = json.loads(experiment.tags["mlflow.sharedViewState.ragtune"])
    columns = json.loads(view["state"])["selectedColumns"]
    assert columns[:4] == ["metrics.`headline`", "tags.`headline`", "metrics.`charged_docs`", "metrics.`aucc`"]
    assert json.loads(view["state"])["orderByKey"] == "metrics.`headline`"  # of runs with other measures, too
    assert logged.run.data.metrics["headline"] == logged.run.data.metrics["nDCG_10"]
    assert logged.run.data.tags["headline"] == "nDCG@10"
    assert f"(#/experiments/{experiment.experiment_id}/runs?viewStateShareKey=ragtune" in experiment.tags[NOTE]
    logged.client.set_experiment_tag(experiment.experiment_id, NOTE, "ours")
    logged.tracking.log(logged.folder, again=True)
    assert logged.client.get_experiment(experiment.experiment_id).tags[NOTE] == "ours"


def test_a_runs_name_has_every_choice_that_its_sweep_varies(make_summary: Callable[..., Summary]) -> None:
    cells = [
        [f"reformulator={word}", f"budget.max_reranker_docs={docs}", f"seed={docs}"]
        for word in ("identity", "rm3", "hyde", "llm_rewrite")
        for docs in (5, 20)
    ]
    varies = ["reformulator", "budget.max_reranker_docs", "seed"]
    names = [
        run_name(make_summary(overrides=cell), {"budget": {"max_reranker_docs": int(cell[2][5:])}}, varies)
        for cell in cells
    ]
    assert len(set(names)) == len(cells)
    assert names[2] == "baseline + greedy, 5 docs, reformulator=rm3, seed=5, tiny/test"


def test_failures_are_tags_and_metrics_and_an_earlier_tracking_failure_is_named(logged: SimpleNamespace) -> None:
    summary = read_summary(logged.folder)
    failed = {"batches_sent": 9, "batches_failed": 3, "share": 0.33, "first_error": "server said 503"}
    failed |= {"went_on": {"reformulation": 2}}
    write_summary(logged.folder, summary.model_copy(update={"failures": summary.failures.model_copy(update=failed)}))
    (logged.folder / TRACKING_ERROR).write_text("the server is down\n")
    data = logged.client.get_run(logged.tracking.log(logged.folder, again=True)).data
    assert data.tags["failures"].startswith("3 of 9 batches failed")
    assert "server said 503" in data.tags["failures"]
    assert data.tags["tracking_failed"] == "the server is down"
    assert data.metrics["failed_batches"] == 3
    assert data.metrics["failed_share"] == 0.33
    assert data.metrics["failed_reformulation"] == 2
    assert data.tags["mlflow.note.content"].startswith("**nDCG@10 0.500, 12.5 docs**")
    said = "Failures and warnings: 3 of 9 batches failed; 2 queries went on without reformulation"
    assert said in data.tags["mlflow.note.content"]


def test_a_sweeps_parent_shows_the_best_job_its_counts_and_its_table(
    logged: SimpleNamespace, tmp_path: Path, make_summary: Callable[..., Summary]
) -> None:
    jobs = {str(i): make_summary(measures={"nDCG@10": 0.5 + i / 10}, overrides=[f"seed={i}"]) for i in range(2)}
    table = tmp_path / "sweep.md"
    table.write_text("| rank |")
    logged.tracking.describe_sweep(logged.parent, [table], SweepFigures(jobs, 1, 6, "2 of 6 jobs"))
    run = logged.client.get_run(logged.parent)
    assert run.data.metrics["nDCG_10"] == run.data.metrics["headline"] == 0.6
    assert run.data.tags["headline"] == "nDCG@10"
    counts = {"jobs_finished": 2, "jobs_failed": 1, "jobs_planned": 6}
    assert counts.items() <= run.data.metrics.items()
    assert run.data.tags["best"].startswith("job 1: ")
    assert run.data.tags["partial"] == "2 of 6 jobs"
    assert run.data.tags["failures"].startswith("1 jobs failed")
    assert [file.path for file in logged.client.list_artifacts(logged.parent)] == ["sweep.md"]


def test_a_run_without_tracking_is_logged_where_tracking_by_default_would_log_it(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = yaml.safe_load((run_dir / "config.yaml").read_text("utf-8"))
    config["tracking"] = {"_target_": "experiments.publish.track.NoTracking"}
    (run_dir / "config.yaml").write_text(yaml.safe_dump(config), "utf-8")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store(tmp_path))
    said = relog(run_dir)
    summary = read_summary(run_dir)
    assert said == f"logged as {summary.mlflow_run_id}"
    assert summary.mlflow_run_id is not None
