"""What a module imports of this project, as its text says."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.config.paths import PROJECT_ROOT
from experiments.config.sources import Sources

FILES = {
    "__init__": "",
    "lazy/__init__": (
        'from importlib import import_module\n_HOMES = {"late": "ragtune.far", "near": "close"}\n'
        "def __getattr__(name):\n    return getattr(import_module(_HOMES[name]), name)\n"
    ),
    "lazy/close": "",
    "far": "from . import (\n    sibling,  # a comment, with a comma\n)\n",
    "sibling": "import ragtune.deep.inner as inner",
    "deep/__init__": "from .inner import anything",
    "deep/inner": "from ..deep import inner",
    "typed": (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ragtune import far\n\nimport ragtune.other\n"
    ),
    "other": "def run():\n    from ragtune.sibling import inner\n    return inner\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        file = tmp_path / "ragtune" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


INNER = ["ragtune.deep", "ragtune.deep.inner"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from ragtune.lazy import late", ["ragtune.far", "ragtune.sibling", *INNER, "ragtune.lazy"]),
        ("from ragtune.lazy import near", ["ragtune.lazy", "ragtune.lazy.close"]),
        ("from ragtune.lazy import nothing", ["ragtune.lazy"]),
        ("import ragtune.typed", ["ragtune.typed", "ragtune.other", "ragtune.sibling", *INNER]),
        ("x = 1\nif x:\n    import numpy, ragtune.deep\n", INNER),
    ],
)
def test_everything_that_is_imported_counts_wherever_it_is(root: Path, text: str, found: list[str]) -> None:
    (root / "ragtune" / "start.py").write_text(text)
    sources = Sources(root)
    assert list(sources.files(["ragtune.start.Class"])) == sorted(["ragtune", "ragtune.start", *found])


def test_a_digest_is_one_of_the_texts_of_what_is_imported(root: Path) -> None:
    start = ["ragtune.typed.Class"]
    before = Sources(root).digest(start)
    (root / "ragtune" / "far.py").write_text("changed")
    assert Sources(root).digest(start) == before
    (root / "ragtune" / "deep" / "inner.py").write_text("changed")
    assert Sources(root).digest(start) != before


@pytest.mark.parametrize("start", ["experiments.study.cellreplay", "experiments.cli.main", "ragtune.cli.main"])
def test_nothing_is_missed_of_what_python_sees_in_this_project(start: str) -> None:
    todo, found = {start}, dict[str, Path]()
    while todo:
        module = todo.pop()
        paths = (
            PROJECT_ROOT / module.replace(".", "/") / "__init__.py",
            PROJECT_ROOT / f"{module.replace('.', '/')}.py",
        )
        if module not in found and (file := next(filter(Path.is_file, paths), None)) is not None:
            found[module] = file
            todo |= {name for name in _imported(file) if name.partition(".")[0] in ("ragtune", "experiments")}
            todo |= {module.rpartition(".")[0]} - {""}
    assert len(found) > 50
    assert found.items() <= Sources().files([start]).items()


def _imported(file: Path) -> Iterator[str]:
    """What Python's parser says is imported, but for what type checkers alone import."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    typed = [node for node in tree.body if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"]
    apart = {inner for node in typed for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if node not in apart and isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif node not in apart and isinstance(node, ast.ImportFrom) and not node.level:
            yield str(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_what_a_policy_loads_when_it_is_built_is_among_its_sources() -> None:
    """Seen from the other side: in a process that builds a component, what Python has loaded of its group's folder."""
    target = "ragtune.estimators.posterior.uncertainty"
    words = f"import sys, {target}; print(*(name for name in sys.modules if name.startswith('ragtune')))"
    loaded = subprocess.run([sys.executable, "-c", words], cwd=PROJECT_ROOT, check=True, capture_output=True, text=True)
    assert set(loaded.stdout.split()) <= Sources().files([target]).keys()
