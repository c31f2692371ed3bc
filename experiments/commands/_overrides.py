"""The overrides that most commands take, and what a shell completes them with."""

from __future__ import annotations

import argparse
from typing import Any

from ragtune.cli.dispatch import Parser


def add_overrides(parser: argparse.ArgumentParser, meaning: str, root: str = "config") -> None:
    """Declare ``arguments.overrides``.

    Args:
        parser: of the command.
        meaning: for its help.
        root: the file of conf/ that they change.
    """
    added: Any = parser.add_argument("overrides", nargs="*", metavar="NAME=VALUE", help=meaning)

    def complete(prefix: str, **context: object) -> list[str]:
        from experiments.config.complete import completions

        return completions(prefix, root)

    added.completer = complete  # argcomplete's way to be told

    def propose(name: str) -> str:
        from experiments.config.suggest import without_dashes

        return without_dashes(name, root)

    if isinstance(parser, Parser):
        parser.propose = propose
