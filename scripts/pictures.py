"""python scripts/pictures.py mlflow|page: the pictures of docs/howto/mlflow.md or docs/page.md, in a real browser.

The former makes a sweep on the shipped collection in a temporary folder and photographs mlflow ui over it, the latter
the page over the shipped collection and over one of ragd. Needs chromium and the extras experiments, ui, postgres and
dev, and takes a minute.
"""

from __future__ import annotations

import argparse
import json
import os
import re
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

PICTURES = PROJECT_ROOT / "docs" / "img"
SWEEP = ["estimator=baseline,similarity,uncertainty", "budget=5,20", "sweep.baseline=estimator=baseline"]
COLUMNS = ["Source", "Models", "nDCG_10", "charged_docs", "budget", "policy"]
"""Columns that are clicked: those that are shown go, the others come."""

WIDTH, PAGE, COLOURS = 1300, 930, 255
ATTACHED = {
    "name": "my-starter.md",
    "mimeType": "text/markdown",
    "buffer": b"# My starter\n\nMy sourdough is fed wholemeal flour. It smells of acetone, and the bread is dense.\n",
}
"""A person's own note, which is searched beside the collection."""

PATIENCE_S, SETTLE_MS = 120.0, 2000


def main() -> int:
    """Write the pictures, and return the exit code."""
    makers = {"mlflow": _mlflow, "page": _page}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=makers)
    with tempfile.TemporaryDirectory() as folder:
        makers[parser.parse_args().what](folder)
    return 0


def _mlflow(folder: str) -> None:
    store = f"sqlite:///{folder}/results/mlflow.db"
    program, where = str(PROJECT_ROOT / "run.py"), "hydra.sweep.dir=results/sweeps/policies"
    command = [sys.executable, program, "-m", *SWEEP, where]
    # The words are those above; there is no shell.
    subprocess.run([*command, "verbosity=0"], cwd=folder, check=True)  # noqa: S603
    command = [sys.executable, "-m", "mlflow", "ui", "--workers", "1", "--backend-store-uri", store]
    with _served(command, folder, "/health") as url, _browser() as page:
        _photograph(page, url, store)


def _page(folder: str) -> None:
    from ragtune.canonical import index
    from ragtune.canonical.store.embedded import connect
    from ragtune.embedders.hashing import HashingEmbedder
    from ragtune.superprompt import PipelineConfig
    from ragtune.superprompt.memory.documents import DocumentMemory
    from ragtune.superprompt.memory.folders import demo_folder

    chunks = DocumentMemory.from_folder(demo_folder(), PipelineConfig.load().chunking).chunks
    with connect(None, Path(folder, "postgres")) as database:
        index(list(chunks), database.open("baking", HashingEmbedder(), create=True))
    command = [sys.executable, "-m", "ragtune.adapters.page"]
    with _served(command, folder, "/_stcore/health") as url:
        for draw in (_reranked, _final, _failed, _weak, _with_collection):
            with _browser() as page:
                page.goto(url)
                _stage(page, "A0 PreProcessing").wait_for()
                draw(page)


def _stage(page: Any, name: str) -> Any:
    return page.get_by_role("button", name=re.compile(rf"^(✓ )?{name}$"))


def _run(page: Any, *names: str) -> None:
    for name in names:
        _stage(page, name).click()
        page.get_by_role("button", name=f"✓ {name}", exact=True).wait_for()


def _auto(page: Any, *, over: str = "Prompt Builder") -> None:
    page.get_by_role("button", name="Auto").click()
    page.get_by_role("button", name=f"✓ {over}", exact=True).wait_for()


def _ask(page: Any, prompt: str) -> None:
    page.get_by_label("Your prompt").fill(prompt)
    page.get_by_label("Your prompt").press("Control+Enter")


def _choose(page: Any, field: str, value: str) -> None:
    page.get_by_label(field).first.click()
    page.get_by_role("option", name=value).click()


def _reranked(page: Any) -> None:
    _run(page, "A0 PreProcessing", "A2 PromptShaper", "Retrieval", "ReRanker")
    _save(page, "page-reranked", PAGE)


def _final(page: Any) -> None:
    _auto(page)
    page.locator(".st-key-super_prompt pre").evaluate("box => { box.parentElement.scrollTop = 0 }")
    page.get_by_role("tab", name="Final selection").click()
    _save(page, "page-final", PAGE)


def _failed(page: Any) -> None:
    _choose(page, "Rerank stage", "cross-encoder, top N2")
    page.get_by_label("Cross-encoder: folder or hub name").fill("models/missing")
    page.get_by_label("Cross-encoder: folder or hub name").press("Enter")
    page.get_by_role("button", name="Auto").click()
    page.get_by_test_id("stAlert").wait_for()
    _save(page, "page-error", PAGE)


def _weak(page: Any) -> None:
    _ask(page, "How do I replace the clutch of a motorcycle?")
    _auto(page)
    _save(page, "page-weak", PAGE)


def _with_collection(page: Any) -> None:
    _choose(page, "Long-term memory", "ragd collection")
    for field, value in (("Collection", "baking"), ("Folder of the embedded PostgreSQL", "postgres")):
        page.get_by_label(field, exact=True).fill(value)
        page.get_by_label(field, exact=True).press("Enter")
    page.locator("input[type=file]").first.set_input_files(ATTACHED)
    _auto(page)
    _save(page, "page-collection", PAGE)


@contextmanager
def _browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": 800})
        page.set_default_timeout(PATIENCE_S * 1000)
        yield page
        browser.close()


@contextmanager
def _served(command: list[str], folder: str, health: str) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    quiet = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "RAGTUNE_"))}
    quiet |= {"MLFLOW_DISABLE_TELEMETRY": "true", "HF_HUB_OFFLINE": "1"}
    process = subprocess.Popen(  # noqa: S603
        [*command, "--port", str(port)], cwd=folder, env=quiet, start_new_session=True
    )
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not _answers(f"http://127.0.0.1:{port}{health}"):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{command[2]} does not answer")
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, 15)
        process.wait()


def _answers(url: str) -> bool:
    with suppress(OSError):
        return bool(urllib.request.urlopen(url, timeout=1).status == 200)  # noqa: S310, the server started above
    return False


def _photograph(page: Any, url: str, store: str) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=store)
    [experiment] = [found.experiment_id for found in client.search_experiments(filter_string="name = 'ragtune'")]
    runs = client.search_runs([experiment], order_by=["metrics.nDCG_10 DESC"])
    [sweep] = [run for run in runs if run.data.tags.get("sweep") == "true"]
    best, *others = [run.info.run_id for run in runs if run is not sweep and run.data.params["budget"] == "tight"]
    page.goto(f"{url}/#/experiments/{experiment}/runs?compareRunsMode=TABLE&workflowType=machine_learning")
    _list(page)
    page.goto(f"{url}/#/experiments/{experiment}/runs/{best}")
    _unfold(page, "mlflow-run", 860)
    page.goto(f"{url}/#/experiments/{experiment}/runs/{sweep.info.run_id}")
    _unfold(page, "mlflow-sweep", 560)
    _curves(page, url, experiment, [best, *others])


def _list(page: Any) -> None:
    """The runs of the sweep, with the columns that one wants."""
    page.wait_for_selector(".ag-row")
    page.locator("[data-component-id*=assistant][data-component-id*=close]").click()
    page.get_by_label("Toggle sidebar").click()
    page.get_by_role("button", name="Columns").click()
    for name in COLUMNS:
        page.get_by_placeholder("Search columns").fill(name)
        page.wait_for_timeout(SETTLE_MS)
        rows = page.locator(".du-bois-light-tree-treenode").filter(has_text=name).all()
        row = next(row for row in rows if row.inner_text().strip() == name)  # not curve/nDCG_10, too
        row.locator(".du-bois-light-tree-checkbox").click()
    page.keyboard.press("Escape")
    page.mouse.click(WIDTH // 2, 700)
    page.locator(".ag-row").first.locator("button").first.click()
    _save(page, "mlflow-runs", 560)


def _unfold(page: Any, name: str, height: int) -> None:
    """The page of a run, with the whole of its description."""
    page.wait_for_selector("text=Description")
    page.wait_for_timeout(SETTLE_MS)
    if (more := page.get_by_text("Show more").first).is_visible():
        more.click()
    _save(page, name, height)


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
    _save(page, "mlflow-curves", 620)


def _save(page: Any, name: str, height: int) -> None:
    """Photograph the upper part of the page, in few colours."""
    from PIL import Image

    page.set_viewport_size({"width": WIDTH, "height": height})
    page.mouse.move(WIDTH // 2, 10)  # off the buttons, which show their help
    page.wait_for_timeout(SETTLE_MS)
    file = PICTURES / f"{name}.png"
    page.screenshot(path=str(file))
    with Image.open(file) as picture:
        picture.convert("RGB").quantize(COLOURS, method=Image.Quantize.FASTOCTREE).save(file, optimize=True)


if __name__ == "__main__":
    sys.exit(main())
