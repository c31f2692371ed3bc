"""The MLflow UI in a real browser: the cost curves of several runs, overlaid."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from web_pages import NEEDS_CHROMIUM, browser_page, served

from experiments.publish.described import TITLE

pytestmark = [pytest.mark.browser, NEEDS_CHROMIUM]


@pytest.fixture
def ui(
    run_here: Callable[..., SimpleNamespace], tmp_path: Path, empty_store: Path, environment: dict[str, str]
) -> Iterator[str]:
    """The address of ``mlflow ui`` over a store of its own with a sweep of three policies on the demo collection."""
    uri = f"sqlite:///{shutil.copy(empty_store, tmp_path)}"
    policies = "estimator=baseline,similarity,score_oracle"
    ended = run_here("-m", policies, "hydra.sweep.dir=sweep", "verbosity=0", cwd=tmp_path, MLFLOW_TRACKING_URI=uri)
    assert ended.code == 0, ended.err
    command = [sys.executable, "-m", "mlflow", "ui", "--workers", "1", "--backend-store-uri", uri]
    quiet = {**environment, "MLFLOW_DISABLE_TELEMETRY": "true"}
    with served(command, "/health", cwd=tmp_path, env=quiet) as url:
        yield url


def test_the_experiments_description_opens_a_list_with_quality_cost_and_choices(ui: str) -> None:
    with browser_page(1400) as page:
        page.goto(f"{ui}/#/experiments/1/runs?workflowType=machine_learning")
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
        figures, choices = (
            ["headline", "headline", "charged_docs", "aucc"],
            ["budget", "estimator", "scheduler", "dataset"],
        )
        assert heads[:11] == ["", "Run Name", "Created", *figures, *choices]
        names = page.locator(".ag-row [col-id='attributes.`Run Name`'] a")
        widths = dict(names.evaluate_all("links => links.map(link => [link.innerText, link.clientWidth])"))
        [similarity] = [width for name, width in widths.items() if name.startswith("similarity, ")]
        assert similarity < max(widths.values())  # a name that is cut takes all the room
        assert page.get_by_role("button", name=TITLE).is_visible()  # MLflow's own menu of saved views
