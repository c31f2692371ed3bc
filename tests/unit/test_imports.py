"""What importing costs, and what must never be importable by accident."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from patience import HANG_S

ROOT = Path(__file__).parents[2]


def modules_after(statement: str) -> set[str]:
    """Top-level modules that a fresh interpreter holds after a statement."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted({{m.split('.')[0] for m in sys.modules}})))"
    command = [sys.executable, "-c", code]
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=ROOT / "tests", env=variables, capture_output=True, text=True, check=True, timeout=HANG_S
    )
    return set(json.loads(done.stdout))


@pytest.mark.parametrize(
    ("statement", "unwanted"),
    [
        (
            "from ragtune import Corpus, CostBudget, RAGtuneController",
            "torch sentence_transformers transformers psycopg fastapi streamlit mcp openai hydra omegaconf mlflow "
            "experiments ray scipy sklearn pandas pyarrow bm25s matplotlib ir_measures ir_datasets",
        ),
        (
            "import experiments.cli.main, ragtune.cli.main",
            "numpy pydantic mlflow pandas scipy torch matplotlib fastapi mcp psycopg uvicorn",
        ),
        (
            "import ragtune.superprompt.pipeline, ragtune.superprompt.options, ragtune.superprompt.page.session",
            "streamlit torch openai psycopg",
        ),
    ],
)
def test_an_import_pulls_in_nothing_that_it_does_not_need(statement: str, unwanted: str) -> None:
    assert not set(unwanted.split()) & modules_after(statement)


def test_our_datasets_folder_never_stands_for_the_package_of_that_name() -> None:
    """With the root on the path, datasets/ would be a namespace package and break whoever probes for the real one."""
    code = (
        "import importlib.util, os, runpy, sys\n"
        "sys.path.insert(0, os.getcwd())\n"
        "runpy.run_path('run.py', run_name='imported')\n"
        "spec = importlib.util.find_spec('datasets')\n"
        "print([] if spec is None else list(spec.submodule_search_locations or []))"
    )
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=HANG_S
    )
    assert str(ROOT / "datasets") not in done.stdout
    assert list((ROOT / "datasets").rglob("*.py")) == []
