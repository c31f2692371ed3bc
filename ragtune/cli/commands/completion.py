"""Print what makes a shell complete ``ragtune``: commands, options, and groups and choices of experiments.

eval "$(ragtune completion bash)"      in ~/.bashrc
eval "$(ragtune completion zsh)"       in ~/.zshrc, after compinit
ragtune completion fish | source       in ~/.config/fish/config.fish
"""

from __future__ import annotations

import argparse
import sys

NAME = "completion"
SUMMARY = "print what makes a shell complete commands, options and choices"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell that reads it")


def run(arguments: argparse.Namespace) -> int:
    """Print the shell's code."""
    from argcomplete.shell_integration import shellcode

    sys.stdout.write(shellcode(["ragtune"], shell=arguments.shell).strip() + "\n")
    return 0


def answer(parser: argparse.ArgumentParser) -> None:
    """Tell the shell what may follow, and end the process."""
    import argcomplete

    argcomplete.autocomplete(parser, always_complete_options=False)
