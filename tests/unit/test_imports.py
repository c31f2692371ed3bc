"""What importing costs, what must never be importable by accident, moved modules by old paths, and names of classes."""

import ast
import json
import os
import re
import subprocess
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest
from patience import HANG_S

from ragtune._moved import MOVED

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


def test_of_hydra_the_harness_uses_public_names_alone() -> None:
    def is_private(node: ast.AST) -> bool:
        owner = ast.unparse(node.value) if isinstance(node, ast.Attribute) else "self"
        return owner not in ("self", "cls") and re.fullmatch(r"_.*[^_]", node.attr) is not None

    for file in sorted((ROOT / "experiments").rglob("*.py")):
        if re.search(r"^ *(from|import) hydra", text := file.read_text(), re.MULTILINE):
            assert not re.findall(r"hydra\._\w+|GlobalHydra\S*\.(?:hydra|config_loader)\b", text), file
            assert not [ast.unparse(node) for node in ast.walk(ast.parse(text)) if is_private(node)], file


@pytest.mark.parametrize(("old", "new"), MOVED.items())
def test_an_old_path_gives_the_moved_module_and_warns(old: str, new: str) -> None:
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=f"{old} has moved to {new}"):
        assert import_module(old) is import_module(new)


def test_the_old_name_of_a_class_warns() -> None:
    with pytest.warns(DeprecationWarning, match="RetrievalPlan is RetrievalDepths now") as told:
        from ragtune import RetrievalPlan  # noqa: F401
    assert told[0].filename == __file__  # by default Python shows warnings of the program's own lines alone


def test_a_name_that_never_was_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError):
        import_module("ragtune.data.nothing_of_the_kind")


def test_no_two_public_classes_have_the_same_name() -> None:
    files = [file for top in ("ragtune", "experiments") for file in (ROOT / top).rglob("*.py")]
    names = Counter(
        node.name
        for file in files
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in names.items() if count > 1] == []
