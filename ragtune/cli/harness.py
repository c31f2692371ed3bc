"""Finds the experiment harness, of a checkout or of the wheel; no other module knows where it lies."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import cast

import ragtune
from ragtune.cli.dispatch import Command
from ragtune.core.errors import ConfigError

COMMANDS = {
    "run": "replay a collection under a budget, and compare with fixed depth",
    "sweep": "run every combination of choices, and compare them in one table",
    "study": "compare policies over budgets and collections, with an interactive report",
    "compare": "test finished runs against the first one",
    "advise": "recommend a policy and a budget for your data",
    "label": "find out with a few judgments whether your reranker helps",
    "score": "record a reranker's scores of a dataset's pairs, for replays",
    "graph": "build the graph of a collection's nearest documents",
    "ingest": "put a dataset into a collection of PostgreSQL",
    "relog": "log finished runs to MLflow from their files",
    "conformance": "compare decisions and ragd's answers with the golden ones",
}
"""What each command of the harness does, in the order of their use; ``experiments/commands/`` has a module of each."""

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


def load(name: str, words: Sequence[str]) -> Command:
    """Return a command of the harness, and put the harness on the path of this process.

    Args:
        name: one of :data:`COMMANDS`.
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
    return cast(Command, import_module(f"{_PACKAGE}.{name}"))


def _take_over(checkout: Path, words: Sequence[str]) -> None:
    path = os.pathsep.join(filter(None, (str(checkout), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-P", "-m", "ragtune", *words]
    sys.stdout.flush()
    os.execve(sys.executable, command, {**os.environ, "PYTHONPATH": path})  # noqa: S606 - Python, with our own module


def _has_commands(folder: Path) -> bool:
    return all((folder / file).is_file() for file in ("conf/config.yaml", "experiments/commands/__init__.py"))


def _is_checkout(folder: Path) -> bool:
    return _has_commands(folder) and all((folder / file).is_file() for file in ("run.py", "ragtune/__init__.py"))
