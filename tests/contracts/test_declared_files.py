"""What the components of conf/ declare about files decides what a run is identified by."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from hydra.utils import get_object

from experiments.config.paths import CONF
from experiments.replay.inputs import InputFiles

TARGETS = sorted(
    {
        target
        for file in CONF.rglob("*.yaml")
        for target in re.findall(r"^ *_target_: (ragtune\.[\w.]+)", file.read_text(), re.MULTILINE)
    }
)


def _declared(name: str) -> list[tuple[str, str]]:
    """Each component of conf/ with each argument that it declares so."""
    found = ((target, getattr(get_object(target), name, ())) for target in TARGETS)
    return [
        (target, argument)
        for target, arguments in found
        for argument in arguments
        if argument in inspect.signature(get_object(target)).parameters
    ]


def _config(target: str, argument: str, value: str) -> dict[str, Any]:
    return {"part": {"_target_": target, argument: value}}


@pytest.mark.parametrize(("target", "argument"), _declared("reads_files"))
def test_an_edit_of_what_a_component_reads_makes_another_run(
    target: str, argument: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = Path("single", "word")
    file.parent.mkdir()
    file.write_text("1")
    for value in ("single", "single/word"):
        before = InputFiles().of(_config(target, argument, value))
        file.write_text(file.read_text() + "1")
        after = InputFiles().of(_config(target, argument, value))
        assert list(before) == list(after) == ["single/word"]
        assert before != after


@pytest.mark.parametrize(("target", "argument"), _declared("keeps_files"))
def test_what_a_component_writes_itself_makes_no_other_run(target: str, argument: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("1")
    assert InputFiles().of(_config(target, argument, str(tmp_path))) == {}


def test_arguments_that_are_documented_as_paths_are_declared() -> None:
    """A cache, a table, a graph: the words of the docstrings against the declarations."""
    undeclared = []
    for target in TARGETS:
        kind = get_object(target)
        if not inspect.isclass(kind):
            continue
        declared = {*getattr(kind, "reads_files", ()), *getattr(kind, "keeps_files", ("cache_dir",))}
        documented = re.findall(
            r"^ +(\w+): (?:path|folder|file|a file|a folder|local folder)\b", inspect.getdoc(kind) or "", re.M
        )
        undeclared += [f"{target}: {name}" for name in documented if name not in declared]
    assert undeclared == []
