"""Serve MCP over stdin and stdout, to the program that started this one."""

from __future__ import annotations

import argparse

from ragtune.cli.commands.options import add_service_options, make_limits, make_service
from ragtune.cli.commands.signals import exit_on_signals, stop_on_sigterm

NAME = "mcp"
SUMMARY = "serve MCP over stdin and stdout"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    add_service_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve until stdin ends or a signal comes."""
    from ragtune.services.mcp import create_server

    limits = make_limits(arguments)
    with stop_on_sigterm(), make_service(arguments) as service:
        server = create_server(service, limits=limits)
        exit_on_signals(service.close)
        server.run("stdio")
    return 0
