"""The overrides that most commands take, and their completion in a shell."""

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
        from experiments.config.options import completions

        return completions(prefix, root)

    added.completer = complete  # read by argcomplete

    def propose(name: str) -> str:
        from experiments.config.options import without_dashes

        return without_dashes(name, root)

    if isinstance(parser, Parser):
        parser.propose = propose
