"""The commands of the harness, one module each, as :class:`ragtune.cli.dispatch.Command` says.

``ragtune NAME ...`` runs them, and so do ``run.py`` and ``scripts/`` under their own names. A module imports what it
needs when it runs: help and completion should not wait for it.
"""

from __future__ import annotations

import argparse
import sys

from ragtune.cli.dispatch import Parser, run_command
from ragtune.cli.harness import load


def main(name: str) -> int:
    """Run a command on the words of this process, and return its exit code: 0, 2 on bad input, 1 else, 130."""
    return run_command(name, load(name), sys.argv[1:])


def add_overrides(parser: argparse.ArgumentParser, meaning: str) -> None:
    """Declare ``arguments.overrides``, and what is proposed for options with dashes."""
    parser.add_argument("overrides", nargs="*", metavar="NAME=VALUE", help=meaning)

    def propose(name: str) -> str:
        from experiments.config.options import without_dashes

        return without_dashes(name)

    if isinstance(parser, Parser):
        parser.propose = propose
