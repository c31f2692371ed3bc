"""Replay a collection through the prompt pipeline, like ``ragtune run`` through a controller; ``-m`` sweeps."""

from __future__ import annotations

import argparse

from experiments.commands._overrides import add_overrides

NAME = "pipeline"
SUMMARY = "replay a collection through the eight stages of the prompt pipeline"
VERBATIM = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Overrides, and Hydra's own options."""
    add_overrides(parser, "Hydra's own options as well", root="pipeline")


def run(arguments: argparse.Namespace) -> int:
    """Run, or sweep with ``-m``."""
    from experiments.cli.main import main

    return main("pipeline", arguments.overrides, f"ragtune {NAME}")
