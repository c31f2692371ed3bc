"""Serve MCP over stdin and stdout, to the program that started this one."""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from ragtune.cli.commands.options import add_service_options, make_limits, make_service
from ragtune.cli.commands.ranker import add_rerank_options, make_ranker
from ragtune.cli.dispatch import TerminatedError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    add_service_options(parser)
    add_rerank_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve until stdin ends or a signal comes."""
    from ragtune.services.limits import Runner
    from ragtune.services.mcp import create_server

    limits = make_limits(arguments)
    with suppress(TerminatedError), make_ranker(arguments) as ranker, make_service(arguments) as service:
        server = create_server(Runner(service, limits), ranker)
        with _exit_on_signals(service.close):
            server.run("stdio")
    return 0


@contextmanager
def _exit_on_signals(close: Callable[[], None]) -> Iterator[None]:
    """End the process at a signal: the thread that reads stdin cannot be interrupted, and would be waited for."""

    def leave(*_: object) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        try:
            close()
        finally:
            os._exit(0)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
