"""What importing costs, and what must never be importable by accident."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

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


def test_the_library_pulls_in_nothing_optional_and_nothing_of_the_harness() -> None:
    unwanted = {"torch", "sentence_transformers", "transformers", "psycopg", "fastapi", "streamlit", "mcp", "openai"}
    unwanted |= {"hydra", "omegaconf", "mlflow", "experiments", "ray"}
    unwanted |= {"scipy", "sklearn", "pandas", "pyarrow", "bm25s", "matplotlib", "ir_measures", "ir_datasets"}
    assert not unwanted & modules_after("from ragtune import Corpus, CostBudget, RAGtuneController")


def test_the_command_line_loads_no_library_before_it_knows_what_to_run() -> None:
    unwanted = {"numpy", "pydantic", "mlflow", "pandas", "scipy", "torch", "matplotlib"}
    assert not unwanted & modules_after("import experiments.cli.main, ragtune.cli.main")


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


def test_the_prompt_pipeline_loads_neither_the_page_nor_a_model() -> None:
    statement = "import ragtune.superprompt.build, ragtune.superprompt.options, ragtune.superprompt.page.session"
    assert not {"streamlit", "torch", "openai", "psycopg"} & modules_after(statement)
