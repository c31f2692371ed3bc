"""What a run is identified by: its options and the content of every file that they name."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.config.paths import PROJECT_ROOT
from experiments.config.sources import Sources
from experiments.replay.inputs import InputFiles, identity, require_same
from ragtune.core.component import Component, declare_files
from ragtune.core.errors import ConfigError

Compose = Callable[..., dict[str, Any]]


@pytest.fixture
def config(compose_tiny: Compose, collection: Path, tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_bytes(b"w")
    shutil.copytree(tmp_path / "model", tmp_path / "graph")
    (collection / "qrels" / "train.tsv").write_text("q4\tstar-1\t1\n")
    (collection / "scores.run.manifest.json").write_text("{}")
    config = compose_tiny()
    config["expander"] = {"_target_": "x.Expander", "graph": str(tmp_path / "graph")}
    config["embedder"] = {"_target_": "x.Embedder", "deep": [{"model": str(tmp_path / "model")}]}
    return config


INPUTS = [
    *("tiny/corpus.jsonl", "tiny/queries.jsonl", "tiny/qrels/test.tsv", "tiny/qrels/train.tsv", "tiny/bm25.run"),
    *("tiny/scores.run", "tiny/scores.run.manifest.json", "graph/weights", "model/weights"),
]


def test_every_file_that_is_read_is_an_input_and_no_other(config: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "tiny" / "notes.txt").write_text("beside the data")
    assert sorted(identity(config)["inputs"]) == sorted(str(tmp_path / name) for name in INPUTS)


@pytest.mark.parametrize("name", INPUTS)
def test_a_file_whose_content_changed_makes_another_run_and_is_named(
    config: dict[str, Any], tmp_path: Path, name: str
) -> None:
    before = identity(config)
    (tmp_path / name).touch()
    assert identity(config) == before  # the content counts, not when it was written
    with (tmp_path / name).open("ab") as file:
        file.write(b"\n")
    with pytest.raises(ConfigError) as refused:
        require_same(identity(config), before, "'x' holds the results of")
    assert f"but 'x' holds the results of other data: {str(tmp_path / name)!r} has changed" in str(refused.value)


@declare_files(reads=["model"], keeps=["store"])
class Reader(Component):
    def __init__(self, model: str, store: str) -> None: ...


def test_what_is_no_input_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("test", "cache", "store", "demo", "results"):
        Path(folder).mkdir()
        Path(folder, "content").write_text("x")
    Path("file").write_text("x")
    texts = ["", "cpu", "x/" * 5000, "a\0b", "~nobody-of-that-name/x", None, 3, "nothing/there"]
    kept = {"cache_dir": str(tmp_path / "cache"), "store": str(tmp_path / "store")}
    config = {
        "texts": texts,
        "group": {"_target_": f"{__name__}.Reader", "split": "test", **kept},
        "tracking": {"uri": "./results"},
    }
    assert InputFiles().of(config) == {}
    more = {"_target_": f"{__name__}.Reader", "path": "file", "model": "demo"}
    assert list(InputFiles().of({**config, "more": more})) == ["demo/content", "file"]


@pytest.mark.parametrize("target", [f"{__name__}.Reader", "nowhere.to.be.Found", "experiments.config.paths.Path"])
def test_an_option_that_a_component_does_not_declare_is_an_input_whatever_its_name(target: str, tmp_path: Path) -> None:
    file = tmp_path / "data" / "numbers.csv"
    file.parent.mkdir()
    file.write_text("1")
    config = {"estimator": {"_target_": target, "folder": str(file.parent)}}
    before = InputFiles().of(config)
    file.write_text("2")
    assert list(before) == [str(file)]
    assert InputFiles().of(config) != before


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
