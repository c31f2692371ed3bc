"""The examples run, and their notebooks are the same cells with what they print."""

import runpy
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jupytext
import pytest
from nbformat import NotebookNode
from patience import HANG_S

from ragtune.cli.main import main

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(notebook.stem for notebook in EXAMPLES.glob("*.ipynb"))


def printed(notebook: NotebookNode) -> str:
    """What its cells have printed, pictures left out."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    streams = [output for output in outputs if output["output_type"] == "stream"]
    assert {output["name"] for output in streams} == {"stdout"}
    return "".join(output["text"] for output in streams)


def committed(name: str) -> NotebookNode:
    return jupytext.read(EXAMPLES / f"{name}.ipynb")


def test_every_example_is_a_script_and_a_notebook_and_is_listed() -> None:
    listed = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert len(NAMES) == 5
    for name in NAMES:
        assert f"({name}.py)" in listed
        assert f"({name}.ipynb)" in listed


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_has_the_code_of_its_script(name: str) -> None:
    script = jupytext.read(EXAMPLES / f"{name}.py")
    assert [(c.cell_type, c.source) for c in committed(name).cells] == [(c.cell_type, c.source) for c in script.cells]


PROCESSES = ("own_policy", "read_by_other_tools")
"""Scripts that run as a person runs them. The others run here, and so do the commands that they start."""


def run(command: list[str], start: Any = subprocess.run, **options: Any) -> Any:
    """Run ``python -m ragtune`` in this process, which need not load everything again; start any other command."""
    if command[:3] != [sys.executable, "-m", "ragtune"]:
        return start(command, **options)
    with redirect_stdout(StringIO()) as out:
        assert main(command[3:]) in (0, None)
    return SimpleNamespace(stdout=out.getvalue())


@pytest.mark.parametrize("name", NAMES)
def test_a_script_prints_what_its_notebook_shows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES)
    for variable in ("OPENAI_BASE_URL", "DATA", "MODEL"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("MPLBACKEND", "agg")
    if name in PROCESSES:
        command = [sys.executable, f"{name}.py"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
        assert done.returncode == 0, done.stderr
    else:
        monkeypatch.syspath_prepend(EXAMPLES)
        monkeypatch.setattr(sys, "argv", ["ragtune"])
        monkeypatch.setattr(subprocess, "run", run)
        with redirect_stdout(StringIO()) as out:
            runpy.run_path(f"{name}.py", run_name="__main__")
        done = SimpleNamespace(stdout=out.getvalue())
    assert done.stdout == printed(committed(name))
