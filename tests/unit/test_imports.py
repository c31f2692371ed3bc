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
