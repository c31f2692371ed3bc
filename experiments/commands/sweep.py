"""Run every combination of comma-separated choices, and print one table: ``ragtune run -m``."""

from __future__ import annotations

import argparse

from experiments.commands.run import add_arguments

__all__ = ["VERBATIM", "add_arguments", "run"]

VERBATIM = True


def run(arguments: argparse.Namespace) -> int:
    """Sweep."""
    from experiments.cli.main import main

    return main(["--multirun", *arguments.overrides], "ragtune sweep")
