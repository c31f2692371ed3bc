"""The command line, ``ragtune NAME ...``: services are modules of ``commands``, experiments those of the harness."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence

from ragtune import __version__
from ragtune.cli.dispatch import BAD_INPUT, Parser, complain, flush_output, run_command
from ragtune.cli.harness import COMMANDS, HOW, SERVICES, find_harness, load
from ragtune.core.arguments import did_you_mean
from ragtune.core.errors import RagtuneError


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command on the arguments, by default those of the process, and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words and not words[0].startswith("-"):
        return _run(words[0], words[1:])
    parser = Parser(prog="ragtune", usage="ragtune COMMAND ...", add_help=False)
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("--version", action="version", version=f"ragtune {__version__}")
    if not parser.parse_args(words).help:
        parser.error("a command is missing")
    try:
        sys.stdout.write("".join(f"{line}\n" for line in _help()))
        flush_output()
    except OSError as error:
        return complain(error)
    return 0


def _run(name: str, words: Sequence[str]) -> int:
    known = [*SERVICES, *COMMANDS]
    if name not in known:
        meant = did_you_mean(name, known)
        sys.stderr.write(f"error: no command {name!r}: ragtune --help lists them{meant}\n")
        return BAD_INPUT
    try:
        command = load(name)
    except RagtuneError as error:
        return complain(error)
    return run_command(name, command, words)


def _help() -> Iterator[str]:
    yield from ("usage: ragtune COMMAND ...", "", "Where should your reranking budget go?")
    yield from ("", "Experiments", *_described(COMMANDS))
    if find_harness() is None:
        yield f"  These need the experiment harness: {HOW}."
    yield from ("", "Services and tools", *_described(SERVICES))
    options = {"-h, --help": "show this help; ragtune COMMAND --help describes one command"}
    yield from ("", "Options", *_described(options | {"--version": "print the version"}))


def _described(names: Mapping[str, str]) -> Iterator[str]:
    return (f"  {name:<14}{meaning}" for name, meaning in names.items())
