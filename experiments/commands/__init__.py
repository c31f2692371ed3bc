"""The commands of the harness, one module each, as :class:`ragtune.cli.dispatch.Command` says.

``ragtune NAME ...`` runs them, and so do ``run.py`` and ``scripts/`` under their own names. A module imports what it
needs when it runs: help and completion should not wait for it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import cast

from ragtune.cli.dispatch import Command, run_command


def main(name: str) -> int:
    """Run a command on the words of this process, and return its exit code: 0, 2 on bad input, 1 else, 130.

    Args:
        name: of the module.
    """
    return run_command(cast(Command, import_module(f"{__name__}.{name}")), sys.argv[1:])
