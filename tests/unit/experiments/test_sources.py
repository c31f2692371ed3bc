"""What a module imports of this project, as its text says."""

from __future__ import annotations

import subprocess
import sys
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


def test_what_a_policy_loads_when_it_is_built_is_among_its_sources() -> None:
    """Seen from the other side: in a process that builds a component, what Python has loaded of its group's folder."""
    target = "ragtune.estimators.posterior.uncertainty"
    words = f"import sys, {target}; print(*(name for name in sys.modules if name.startswith('ragtune')))"
    loaded = subprocess.run([sys.executable, "-c", words], cwd=PROJECT_ROOT, check=True, capture_output=True, text=True)
    assert set(loaded.stdout.split()) <= Sources().files([target]).keys()
