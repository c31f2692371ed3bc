"""The commands and their modules; finds the experiment harness, of a checkout or of the wheel."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import ragtune
from ragtune.cli.dispatch import Command
from ragtune.core.errors import ConfigError

COMMANDS = {
    "run": "replay a collection under a budget, and compare with fixed depth",
    "sweep": "run every combination of choices, and compare them in one table",
    "study": "compare policies over budgets and collections, with an interactive report",
    "leaderboard": "rank policies, those of other packages too, by quality against cost",
    "compare": "test finished runs against the first one",
    "gate": "let a run replace another only if it loses little and costs no more",
    "explain": "say why a document of a run is where it is",
    "advise": "recommend a policy and a budget for your data",
    "label": "find out with a few judgments whether your reranker helps",
    "calibrate": "turn a reranker's scores into probabilities of relevance",
    "score": "record a reranker's scores of a dataset's pairs, for replays",
    "pack": "write a collection, its candidates and its scores into one file",
    "export": "write a run in the form of TIRA, TREC, ranx or Hugging Face",
    "graph": "build the graph of a collection's nearest documents",
    "relog": "log finished runs to MLflow from their files",
    "reproduce": "compare published figures of papers with ours",
    "conformance": "compare decisions and ragd's answers with the golden ones",
}
"""What each command of the harness does, in the order of their use; ``experiments/commands/`` has a module of each."""

SERVICES = {
    "ingest": "put documents into a collection of PostgreSQL",
    "search": "search a collection of ragtune ingest, or a table of PostgreSQL",
    "serve": "serve REST, the rerank API, and MCP over HTTP",
    "mcp": "serve MCP over stdin and stdout",
    "prompt": "run a prompt through the eight stages and print the result",
    "shadow": "report what a budget loses and saves on your own requests",
    "certificate": "certify what a budget saved and lost on your own requests",
    "drift": "measure what a faster number type changes in a cross-encoder's scores",
    "doctor": "show what is installed and configured, what is missing, and how to get it",
}
"""What each other command does; ``ragtune/cli/commands/`` has a module of each."""

HOW = "pip install 'ragtune[experiments]', or in a clone of the repository pip install -e '.[experiments]'"

_FOLDERS = (Path(ragtune.__file__).parents[1], Path(ragtune.__file__).with_name("_harness"))
"""Where the harness lies beside this code: in a checkout, or in the wheel."""


def find_harness() -> Path | None:
    """Return the folder of ``experiments/`` and ``conf/``; None where the installation has none."""
    files = ("conf/config.yaml", "experiments/commands/__init__.py")
    return next((folder for folder in _FOLDERS if all((folder / file).is_file() for file in files)), None)


def load(name: str) -> Command:
    """Return a command; one of :data:`COMMANDS` puts the harness on the path of this process."""
    found = import_module(f"ragtune.cli.commands.{name}") if name in SERVICES else part(f"commands.{name}")
    return cast(Command, found)


def part(name: str) -> Any:
    """Return a module of ``experiments``, and put the harness on the path of this process."""
    folder = find_harness()
    if folder is None:
        command = name.rpartition(".")[2]
        raise ConfigError(f"ragtune {command} needs the experiment harness, which this installation lacks: {HOW}")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return import_module(f"experiments.{name}")
