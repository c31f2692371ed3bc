"""Replay a collection with one policy under one budget."""

from __future__ import annotations

import argparse

from experiments.commands import add_overrides

VERBATIM = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Overrides, and Hydra's own options."""
    add_overrides(parser, "Hydra's own options as well")


def run(arguments: argparse.Namespace) -> int:
    """Run, or sweep with ``-m``."""
    from experiments.cli.main import main

    return main(arguments.overrides)
