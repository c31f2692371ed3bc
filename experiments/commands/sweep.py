"""Run every combination of comma-separated choices, and print one table: ``ragtune run -m``."""

from __future__ import annotations

import argparse

from experiments.commands.run import add_arguments

__all__ = ["NAME", "SUMMARY", "VERBATIM", "add_arguments", "run"]

NAME = "sweep"
SUMMARY = "run every combination of choices, and compare them in one table"
VERBATIM = True


def run(arguments: argparse.Namespace) -> int:
    """Sweep."""
    from experiments.cli.main import main

    return main(["--multirun", *arguments.overrides], f"ragtune {NAME}")
