"""python scripts/mlflow_pictures.py: the pictures of docs/howto/mlflow.md, of a real store in a real browser.

Makes a sweep on the shipped collection in a temporary folder, starts mlflow ui over it and photographs its pages with
chromium. Needs the extras experiments and dev, and takes a minute.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from experiments.config.paths import PROJECT_ROOT
from experiments.publish.described import address

PICTURES = PROJECT_ROOT / "docs" / "img"
SWEEP = ["estimator=baseline,similarity,uncertainty", "budget=5,20"]
WIDTH, COLOURS = 1300, 255
PATIENCE_S, SETTLE_MS = 120.0, 2000


def main() -> int:
    """Write the pictures, and return the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{folder}/results/mlflow.db"
        program, where = str(PROJECT_ROOT / "run.py"), "hydra.sweep.dir=results/sweeps/policies"
        command = [sys.executable, program, "-m", *SWEEP, where]
        # The words are those above; there is no shell.
        subprocess.run([*command, "verbosity=0"], cwd=folder, check=True)  # noqa: S603
        mlflow = [sys.executable, "-m", "mlflow", "ui", "--workers", "1", "--backend-store-uri", store]
        with served(mlflow, "--port", "/health", folder) as url:
            _photograph(url, store)
    return 0


@contextmanager
def served(command: list[str], port_option: str, health: str, folder: str | Path) -> Iterator[str]:
    """The address of what the command serves at a free port of this machine, once ``health`` below it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    quiet = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true"}
    whole = [*command, port_option, str(port)]
    process = subprocess.Popen(whole, cwd=folder, env=quiet, start_new_session=True)  # noqa: S603
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not _answers(f"http://127.0.0.1:{port}{health}"):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{' '.join(command)} does not answer")
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, 15)
        process.wait()


def _answers(url: str) -> bool:
    with suppress(OSError):
        return bool(urllib.request.urlopen(url, timeout=1).status == 200)  # noqa: S310, the server started above
    return False


def _photograph(url: str, store: str) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=store)
    [experiment] = [found.experiment_id for found in client.search_experiments(filter_string="name = 'ragtune'")]
    runs = client.search_runs([experiment], order_by=["metrics.nDCG_10 DESC"])
    [sweep] = [run for run in runs if run.data.tags.get("sweep") == "true"]
    best, *others = [run.info.run_id for run in runs if run is not sweep and run.data.params["budget"] == "tight"]
    with opened() as page:
        page.goto(f"{url}/{address(experiment)}")
        _list(page)
        page.goto(f"{url}/#/experiments/{experiment}/runs/{best}")
        _unfold(page, "mlflow-run", 860)
        page.goto(f"{url}/#/experiments/{experiment}/runs/{sweep.info.run_id}")
        _unfold(page, "mlflow-sweep", 560)
        _curves(page, url, experiment, [best, *others])


@contextmanager
def opened() -> Iterator[Any]:
    """An empty page of chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": 800})
        page.set_default_timeout(PATIENCE_S * 1000)
        yield page
        browser.close()


def _list(page: Any) -> None:
    """The runs of the sweep in the saved view, without the panels and the hint that stand around it."""
    page.wait_for_selector(".ag-row")
    page.locator("[data-component-id*=assistant][data-component-id*=close]").click()
    page.get_by_label("Toggle sidebar").click()
    save(page, "mlflow-runs", 560)


def _unfold(page: Any, name: str, height: int) -> None:
    """The page of a run, with the whole of its description."""
    page.wait_for_selector("text=Description")
    page.wait_for_timeout(SETTLE_MS)
    if (more := page.get_by_text("Show more").first).is_visible():
        more.click()
    save(page, name, height)


def _curves(page: Any, url: str, experiment: str, runs: list[str]) -> None:
    query = {
        "runs": json.dumps(runs),
        "metric": json.dumps("curve/nDCG_10"),
        "experiments": json.dumps([experiment]),
        "plot_metric_keys": json.dumps(["curve/nDCG_10"]),
        "x_axis": "step",
        "line_smoothness": "0",
    }
    page.goto(f"{url}/#/metric?{urllib.parse.urlencode(query)}")
    page.wait_for_selector(".js-plotly-plot .scatterlayer .trace")
    save(page, "mlflow-curves", 620)


def save(page: Any, name: str, height: int, width: int = WIDTH) -> None:
    """Photograph the upper part of the page, in few colours."""
    from PIL import Image

    page.set_viewport_size({"width": width, "height": height})
    page.wait_for_timeout(SETTLE_MS)
    file = PICTURES / f"{name}.png"
    page.screenshot(path=str(file))
    with Image.open(file) as picture:
        picture.convert("RGB").quantize(COLOURS, method=Image.Quantize.MEDIANCUT).save(file, optimize=True)


if __name__ == "__main__":
    sys.exit(main())
