"""The overrides that most commands take, and what a shell completes them with."""

from __future__ import annotations

import argparse
import re
from typing import Any

from ragtune.adapters.dispatch import Parser


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
    if isinstance(parser, Parser):
        parser.propose = lambda name: without_dashes(name, root)


def without_dashes(name: str, root: str = "config") -> str:
    """The end of a message about an option that was given with dashes, as no NAME=VALUE is.

    Args:
        name: the option, without its dashes.
        root: the file of conf/ whose options may have been meant.
    """
    from experiments.config.options import known_options
    from experiments.config.suggest import did_you_mean_option

    known = known_options(root)
    meant = f"; did you mean {name}?" if name in known else did_you_mean_option(name, known)
    return re.sub(r"did you mean ([\w.]+)\?", r"did you mean \1=VALUE?", meant)
