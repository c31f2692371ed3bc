"""The command line, ``ragtune NAME ...``: services are modules of ``commands``, experiments those of the harness."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from ragtune import __version__
from ragtune.cli import harness
from ragtune.cli.commands import certificate, doctor, drift, ingest, mcp, prompt, search, serve, shadow
from ragtune.cli.dispatch import BAD_INPUT, Command, Parser, complain, flush_output, run_command
from ragtune.core.arguments import did_you_mean
from ragtune.core.errors import RagtuneError

SERVICES: dict[str, Command] = {
    "ingest": ingest,
    "search": search,
    "serve": serve,
    "mcp": mcp,
    "prompt": prompt,
    "shadow": shadow,
    "certificate": certificate,
    "drift": drift,
    "doctor": doctor,
}


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
    if name in SERVICES:
        return run_command(name, SERVICES[name], words)
    if name not in harness.COMMANDS:
        meant = did_you_mean(name, [*SERVICES, *harness.COMMANDS])
        sys.stderr.write(f"error: no command {name!r}: ragtune --help lists them{meant}\n")
        return BAD_INPUT
    try:
        command = harness.load(name)
    except RagtuneError as error:
        return complain(error)
    return run_command(name, command, words)


def _help() -> Iterator[str]:
    yield from ("usage: ragtune COMMAND ...", "", "Where should your reranking budget go?")
    yield from ("", "Experiments")
    yield from (f"  {name:<14}{summary}" for name, summary in harness.COMMANDS.items())
    if harness.find_harness() is None:
        yield f"  These need the experiment harness: {harness.HOW}."
    yield from ("", "Services and tools")
    for name, command in SERVICES.items():
        summary = str(command.__doc__).partition("\n")[0].rstrip(".")
        yield f"  {name:<14}{summary[0].lower()}{summary[1:]}"
    yield from ("", "Options")
    yield f"  {'-h, --help':<14}show this help; ragtune COMMAND --help describes one command"
    yield f"  {'--version':<14}print the version"
