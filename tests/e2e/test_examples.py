"""The examples run, and their notebooks are the same cells with what they print."""

import os
import subprocess
import sys
from pathlib import Path

import jupytext
import pytest
from nbformat import NotebookNode
from patience import HANG_S

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(notebook.stem for notebook in EXAMPLES.glob("*.ipynb"))
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in {"OPENAI_BASE_URL", "DATA", "MODEL"}}


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


@pytest.mark.parametrize("name", NAMES)
def test_a_script_prints_what_its_notebook_shows(name: str) -> None:
    done = subprocess.run(
        [sys.executable, f"{name}.py"],
        cwd=EXAMPLES,
        env={**ENVIRONMENT, "MPLBACKEND": "agg"},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed(committed(name))
