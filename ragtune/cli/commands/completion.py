"""Print a shell's completion of ``ragtune``: commands, options, and groups and choices of experiments.

eval "$(ragtune completion bash)"      in ~/.bashrc
eval "$(ragtune completion zsh)"       in ~/.zshrc, after compinit
ragtune completion fish | source       in ~/.config/fish/config.fish
"""

from __future__ import annotations

import argparse
import sys

NAME = "completion"
SUMMARY = "print a shell's completion of commands, options and choices"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="your shell")


def run(arguments: argparse.Namespace) -> int:
    """Print the shell's code."""
    from argcomplete.shell_integration import shellcode

    sys.stdout.write(shellcode(["ragtune"], shell=arguments.shell).strip() + "\n")
    return 0


def answer(parser: argparse.ArgumentParser) -> None:
    """Tell the shell what may follow, and end the process."""
    import argcomplete

    argcomplete.autocomplete(parser, always_complete_options=False)
