"""The command line takes every command that README, docs and help texts show, and those on shipped data run."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
from documented import COMMANDS, SHOWN, is_own_component, pages

from experiments.config.compose import compose, composed, plain
from ragtune.cli.dispatch import Parser, declare
from ragtune.cli.main import main

OVERRIDDEN = ("advise", "label", "score", "graph", "ingest")
"""Commands with options of their own before the overrides of a run."""


@pytest.mark.parametrize("words", [words for words, _ in SHOWN], ids=lambda words: shlex.join(words)[:70])
def test_every_command_that_is_shown_is_taken(words: tuple[str, ...]) -> None:
    name, *rest = words
    assert name in COMMANDS
    if is_own_component(words) or {"--help", "-h"} & set(rest):
        return
    if name in ("run", "sweep"):
        composes([word for word in rest if word not in ("-m", "--multirun")], "config")
        return
    parser = Parser(prog=f"ragtune {name}")
    declare(COMMANDS[name], parser)
    first = [word if name == "prompt" else word.partition("|")[0] for word in rest]
    has_subcommands = any(isinstance(action.choices, dict) for action in parser._actions)
    arguments = parser.parse_args(first) if has_subcommands else parser.parse_intermixed_args(first)
    if name in OVERRIDDEN:
        composes(arguments.overrides, "ingest" if name == "ingest" else "config")
    if name == "study":
        asks(arguments)


def composes(overrides: list[str], root: str) -> None:
    """The first of the choices of every override is a configuration, and its options are in range.

    What the shell fills in is left out.
    """
    kept = [word for word in overrides if not word.startswith("hydra")]
    first = [re.sub(r"(?:interval|range)\(([\d.]+),.*", r"\1", word) for word in kept]
    first = [word if "[" in word or "glob" in word else word.split(",")[0] for word in first]
    words = [re.sub(r"=glob\(.*\)", "=gar", word) for word in first if "$(" not in word]
    if root == "ingest":
        plain(composed(words, root))
    else:
        compose(words)


def asks(arguments: argparse.Namespace) -> None:
    """The grid of a study exists and has the policies that are asked for."""
    load_grid = import_module("experiments.study.grid").load_grid
    options = [*arguments.options, *([f"data={arguments.data}"] if arguments.data else [])]
    chosen = [name for name in arguments.policies.split(",") if name]
    assert load_grid(arguments.config, options).only([], chosen).policies


def called(call: Callable[[], int | None]) -> int:
    """The exit code, however a command ends."""
    try:
        return call() or 0
    except SystemExit as end:
        return int(end.code or 0)


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["study", "--polices", "x"], "did you mean --policies?"),
        (["study", "--policies", "uncertanty"], "did you mean uncertainty?"),
        (["study", "--config", "opne"], "did you mean open?"),
        (["shadow", "report", "x", "--jsno"], "did you mean --json?"),
        (["serve", "--modle", "x"], "did you mean --model?"),
        (["run", "experimnt=gar"], "did you mean experiment?"),
        (["run", "experiment=gra"], "did you mean gar?"),
        (["run", "bugdet=20"], "did you mean budget?"),
    ],
)
def test_a_slip_is_answered_with_what_is_spelled_nearly_so(
    words: list[str], meant: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert called(lambda: main(words)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert line.endswith(meant)


def test_help_of_a_sweep_is_about_sweeps_and_has_every_choice(capsys: pytest.CaptureFixture[str]) -> None:
    helped: dict[str, SimpleNamespace] = {}
    for name in ("run", "sweep"):
        assert called(lambda name=name: main([name, "--help"])) == 0
        first, _, rest = capsys.readouterr().out.partition("\nChoices")
        helped[name] = SimpleNamespace(usage=first, choices=rest)
    assert helped["sweep"].choices == helped["run"].choices
    assert "ragtune sweep experiment=uncertainty,gar budget=5,10,20" in helped["sweep"].usage


INSTALL = re.compile(r"pip install (?:-\S+ )*'?(ragtune\S*)")


def test_every_install_line_works_from_a_checkout() -> None:
    """The package is not published: a page that installs it by name would fetch somebody else's."""
    by_name = {where: INSTALL.findall(text) for where, text in pages().items() if INSTALL.search(text)}
    assert by_name == {}
