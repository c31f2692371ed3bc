"""The command line: ``ragtune serve``, ``ragtune mcp``, ``ragtune prompt``, ``ragtune shadow``, ``ragtune doctor``.

A subcommand is a module of :mod:`ragtune.adapters.commands` with ``NAME``, ``SUMMARY``, ``add_arguments(parser)`` and
``run(arguments)``, which imports what it needs when it runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ragtune import __version__
from ragtune.adapters.commands import doctor, mcp, prompt, serve, shadow
from ragtune.core.errors import InputError, RagtuneError

COMMANDS = (serve, mcp, prompt, shadow, doctor)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        argv: command-line arguments; None takes those of the process.

    Returns:
        Exit code: 0; 2 on bad input and 1 on another expected failure, each with one line on stderr.
    """
    parser = argparse.ArgumentParser(
        prog="ragtune", description="RAGtune's services. Experiments are run by run.py of a checkout."
    )
    parser.add_argument("--version", action="version", version=f"ragtune {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        added = commands.add_parser(command.NAME, help=command.SUMMARY, description=command.__doc__)
        added.formatter_class = argparse.ArgumentDefaultsHelpFormatter
        command.add_arguments(added)
        added.set_defaults(run=command.run)
    arguments = parser.parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except RagtuneError as error:
        sys.stderr.write(f"ragtune: {' '.join(str(error).split())}\n")
        return 2 if isinstance(error, InputError) else 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
