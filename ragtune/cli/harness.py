"""Finds the commands of the harness, which a checkout has and a wheel has not; nothing else here knows of it."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import cast

from ragtune.cli.dispatch import Command
from ragtune.core.errors import ConfigError

COMMANDS = (
    "run",
    "sweep",
    "study",
    "compare",
    "advise",
    "label",
    "score",
    "graph",
    "ingest",
    "runs",
    "relog",
    "pipeline",
    "conformance",
)
"""Their names in the order of their use; a checkout may have more."""

HOW = "git clone its repository, and in the clone pip install -e '.[experiments]'"

_PACKAGE = "experiments.commands"
_HERE = Path(__file__).parents[2]


def find_checkout() -> Path | None:
    """The checkout that the current folder lies in, else the one that this code was installed from or lies in."""
    try:
        here = Path.cwd()
    except OSError:  # it has been removed
        return _HERE if _is_checkout(_HERE) else None
    return next((folder for folder in (here, *here.parents, _HERE) if _is_checkout(folder)), None)


def summaries(checkout: Path) -> dict[str, str]:
    """What each command of a checkout does, by its name; read from the files, so nothing has to be installed."""
    modules = checkout.joinpath(*_PACKAGE.split(".")).glob("[!_]*.py")
    found = {
        constants["NAME"]: constants.get("SUMMARY", "") for constants in map(_constants, modules) if "NAME" in constants
    }
    order = {name: place for place, name in enumerate(COMMANDS)}
    return {name: found[name] for name in sorted(found, key=lambda name: (order.get(name, len(order)), name))}


def load(name: str, words: Sequence[str]) -> Command:
    """The command of the checkout, whose code takes the place of any that is installed, here and in other processes.

    Args:
        name: one of :func:`summaries`, or of :data:`COMMANDS`.
        words: what follows it, for the code of another checkout than the one that runs, which takes over.

    Raises:
        ConfigError: if there is no checkout.
        SystemExit: if the extra is not installed, with a line that says so.
    """
    checkout = find_checkout()
    if checkout is None:
        raise ConfigError(f"ragtune {name} needs a checkout of RAGtune, and none is here: {HOW}")
    if not checkout.samefile(_HERE):
        _take_over(checkout, [name, *words])
    if str(checkout) not in sys.path:
        sys.path.insert(0, str(checkout))
    return cast(Command, import_module(f"{_PACKAGE}.{name.replace('-', '_')}"))


def _take_over(checkout: Path, words: Sequence[str]) -> None:
    path = os.pathsep.join(filter(None, (str(checkout), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-P", "-m", "ragtune", *words]
    sys.stdout.flush()
    os.execve(sys.executable, command, {**os.environ, "PYTHONPATH": path})  # noqa: S606 - Python, with our own module


def _is_checkout(folder: Path) -> bool:
    needed = ("run.py", "conf/config.yaml", "experiments/commands/__init__.py", "ragtune/cli/harness.py")
    return all((folder / file).is_file() for file in needed)


def _constants(file: Path) -> dict[str, str]:
    """The texts that a module gives names to."""
    body = ast.parse(file.read_text(encoding="utf-8")).body
    return {
        target.id: node.value.value
        for node in body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
