"""Runs one command: its parser, its work, and one way to say how it ended."""

from __future__ import annotations

import argparse
import errno
import os
import re
import shlex
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn, Protocol

from ragtune.core.arguments import nearest
from ragtune.core.errors import ConfigError, InputError, RagtuneError

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # a full disk, an exhausted quota, a file that is too large


class TerminatedError(KeyboardInterrupt):
    """SIGTERM came, which ends a command as Ctrl-C does. Servers take it for their orderly end."""


class Command(Protocol):
    """A command is a module, which is imported when it is called; its docstring is what ``--help`` says.

    Three more names are optional: ``VERBATIM = True`` has all words, ``--help`` included, arrive as they are as the
    only argument that it declares; ``KEPT`` says what an interruption leaves and how to go on; ``BAD_INPUT`` is the
    exit code of bad input where 2 is a verdict.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: argparse.Namespace) -> int: ...


class HelpFormatter(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    """Keeps the lines of a docstring, and tells defaults that say something."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        says_nothing = action.default is None or action.default is False or action.default in ("", [])
        return action.help if says_nothing else super()._get_help_string(action)


class Parser(argparse.ArgumentParser):
    """Reports in one line which words do not fit, and the option that is spelled nearly so."""

    bad_input = BAD_INPUT
    propose: Callable[[str], str] = staticmethod(lambda name: "")
    """Returns the end of the message for an unknown option, by its name without dashes, that no other one is like."""

    def error(self, message: str) -> NoReturn:
        self.exit(self.bad_input, f"error: {message}; {self.prog} --help says what is allowed{self._meant(message)}\n")

    def _meant(self, message: str) -> str:
        unknown = re.search(r"unrecognized arguments: --([\w-]+)", message)  # two dashes say nothing of likeness
        if unknown is None:
            return ""
        near = nearest(unknown[1], sorted(set(re.findall(r"--(\w[\w-]*)", self.format_usage()))))
        return f"; did you mean --{near}?" if near else self.propose(unknown[1])


def declare(command: Command, parser: argparse.ArgumentParser) -> None:
    """Make a parser that of a command."""
    parser.description = command.__doc__
    parser.formatter_class = HelpFormatter
    command.add_arguments(parser)


def refuse(arguments: argparse.Namespace, names: Iterable[str], allowed: str) -> None:
    """Refuse the options that were given, whose value is not None; ``allowed`` ends the message."""
    for name in names:
        if getattr(arguments, name) is not None:
            raise ConfigError(f"{flag(name)}: allowed {allowed}")


def flag(name: str) -> str:
    """The option that sets an argument."""
    return ("--" if len(name) > 1 else "-") + name.replace("_", "-")


def run_command(name: str, command: Command, words: Sequence[str]) -> int:
    """Run a command; returns its exit code, 130 if interrupted, else 2 on bad input and 1 on another failure."""
    parser = Parser(prog=f"ragtune {name}")
    parser.bad_input = getattr(command, "BAD_INPUT", BAD_INPUT)
    declare(command, parser)
    if getattr(command, "VERBATIM", False):
        arguments = parser.parse_args(["--", *words])
    else:
        arguments = parser.parse_intermixed_args(words)
    arguments.command = shlex.join([*parser.prog.split(), *words])
    try:
        with sigterm_as_ctrl_c():
            code = command.run(arguments)
        flush_output()
    except (Exception, KeyboardInterrupt) as error:
        code = complain(error, kept=getattr(command, "KEPT", ""))
        return parser.bad_input if code == BAD_INPUT else code
    return code


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Interrupt the block on SIGTERM as Ctrl-C does, once: a second SIGTERM does not disturb the end of the work."""

    def interrupt(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)
        raise TerminatedError

    if threading.current_thread() is not threading.main_thread():  # which alone may set handlers
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def flush_output() -> None:
    """Write what stdout still holds, so that a full disk is reported like any other failure."""
    try:
        sys.stdout.flush()
    except OSError:
        _close_output()
        raise


def complain(error: BaseException, prefix: str = "", kept: str = "", folder: Path | None = None) -> int:
    """Say what went wrong in one line, ``kept`` being what is left (a defect: with its traceback); the exit code."""
    if isinstance(error, BrokenPipeError):
        _close_output()  # whoever read it, as `| head` does, has seen enough
        return FAILED
    message, code = _explained(error, kept, folder)
    if code == FAILED and not isinstance(error, RagtuneError | OSError):
        traceback.print_exception(error)
    sys.stderr.write(f"error: {prefix}{' '.join(message.splitlines())}\n")
    return code


def _explained(error: BaseException, kept: str, folder: Path | None) -> tuple[str, int]:
    more = f"; {kept}" if kept else ""
    if isinstance(error, KeyboardInterrupt):
        return f"interrupted{more}", INTERRUPTED
    if isinstance(error, RagtuneError):
        return str(error), BAD_INPUT if isinstance(error, InputError) else FAILED
    if not isinstance(error, OSError):
        return f"{type(error).__name__}: {error}", FAILED
    where, why = error.filename or folder or "a file", error.strerror or str(error)
    if error.errno in _NO_ROOM:
        return f"no room for {where}: {why}{more}", FAILED
    return f"cannot use {where}: {why}", BAD_INPUT


def _close_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
