"""Finds the experiment harness, of a checkout or of the wheel; no other module knows where it lies."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import cast

import ragtune
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
    "conformance",
)
"""Their names in the order of their use; a harness may have more."""

HOW = "pip install 'ragtune[experiments]', or in a clone of the repository pip install -e '.[experiments]'"

_PACKAGE = "experiments.commands"
_HERE = Path(__file__).parents[2]
_WHEEL = Path(ragtune.__file__).with_name("_harness")


def find_harness() -> Path | None:
    """Return the folder of ``experiments/`` and ``conf/``, or None where no code has them.

    The checkout around the current folder comes first, then the one that holds this code, then the installed wheel's.
    """
    return find_checkout() or (_WHEEL if _has_commands(_WHEEL) else None)


def find_checkout() -> Path | None:
    """Return the checkout around the current folder, else the one that holds this code, else None."""
    try:
        here = Path.cwd()
    except OSError:  # it has been removed
        return _HERE if _is_checkout(_HERE) else None
    return next((folder for folder in (here, *here.parents, _HERE) if _is_checkout(folder)), None)


def summaries(folder: Path) -> dict[str, str]:
    """Return what each command of a harness does, by its name; read from the files, so no extra is needed."""
    modules = folder.joinpath(*_PACKAGE.split(".")).glob("[!_]*.py")
    found = {
        constants["NAME"]: constants.get("SUMMARY", "") for constants in map(_constants, modules) if "NAME" in constants
    }
    order = {name: place for place, name in enumerate(COMMANDS)}
    return {name: found[name] for name in sorted(found, key=lambda name: (order.get(name, len(order)), name))}


def load(name: str, words: Sequence[str]) -> Command:
    """Return a command of the harness, and put the harness on the path of this process.

    Args:
        name: one of :func:`summaries`, or of :data:`COMMANDS`.
        words: the arguments of the command, for a checkout that is not the code that runs: it takes over.

    Raises:
        ConfigError: if there is no harness.
        SystemExit: if the extra is not installed, with a line that says so.
    """
    folder = find_harness()
    if folder is None:
        raise ConfigError(f"ragtune {name} needs the experiment harness, which this installation lacks: {HOW}")
    if folder not in (_HERE, _WHEEL) and not folder.samefile(_HERE):
        _take_over(folder, [name, *words])
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return cast(Command, import_module(f"{_PACKAGE}.{name.replace('-', '_')}"))


def _take_over(checkout: Path, words: Sequence[str]) -> None:
    path = os.pathsep.join(filter(None, (str(checkout), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-P", "-m", "ragtune", *words]
    sys.stdout.flush()
    os.execve(sys.executable, command, {**os.environ, "PYTHONPATH": path})  # noqa: S606 - Python, with our own module


def _has_commands(folder: Path) -> bool:
    return all((folder / file).is_file() for file in ("conf/config.yaml", "experiments/commands/__init__.py"))


def _is_checkout(folder: Path) -> bool:
    return _has_commands(folder) and all((folder / file).is_file() for file in ("run.py", "ragtune/__init__.py"))


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
