"""Serve REST, the rerank API, and MCP over HTTP at /mcp, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import argparse
import gc
import socket
import sys
from contextlib import suppress
from copy import deepcopy
from types import FrameType

from ragtune.cli.commands.options import add_service_options, is_lazy, make_limits, make_service
from ragtune.cli.commands.ranker import add_rerank_options, make_ranker
from ragtune.cli.dispatch import TerminatedError
from ragtune.core.errors import ConfigError, MissingExtraError

_BACKLOG = 2048
_LONGEST_SHUTDOWN_S = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--host", default="127.0.0.1", help="address; other than loopback needs $RAGTUNE_API_KEY")
    parser.add_argument("--port", type=int, default=8080, help="0 takes a free one")
    parser.add_argument("--allow-host", metavar="NAME", action="append", help="further name of this server; repeatable")
    parser.add_argument("--access-log", action="store_true", help="log every request to stderr")
    add_service_options(parser)
    add_rerank_options(parser)
    parser.add_argument("--max-body", metavar="BYTES", type=int, default=16 * 2**20, help="size of a request")
    parser.add_argument("--max-in-flight", metavar="N", type=int, default=256, help="requests at once; more get 503")


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal comes, then answer the requests under way with what is there, within 8 seconds."""
    try:
        import uvicorn
        from uvicorn.config import LOGGING_CONFIG

        from ragtune.services.application import create_application
    except ImportError as error:
        raise MissingExtraError("ragtune serve", "services") from error
    from ragtune.services.security import secure

    security = secure(arguments.host, frozenset(name.lower() for name in arguments.allow_host or ()))
    limits = make_limits(arguments, body_bytes=arguments.max_body, in_flight=arguments.max_in_flight)
    logging = deepcopy(LOGGING_CONFIG)
    logging["handlers"]["access"]["stream"] = "ext://sys.stderr"
    with (
        suppress(TerminatedError),
        _listen(arguments.host, arguments.port) as listener,
        make_ranker(arguments) as ranker,
        make_service(arguments) as service,
    ):
        app = create_application(service, security, limits, ranker)
        config = uvicorn.Config(
            app,
            log_config=logging,
            log_level="info" if arguments.access_log else "warning",
            access_log=arguments.access_log,
            server_header=False,
            proxy_headers=False,
            ws="none",
            timeout_graceful_shutdown=min(_LONGEST_SHUTDOWN_S, max(1, round(limits.timeout_s))),
        )
        where = "no store yet" if is_lazy(arguments) else f"store {arguments.store or 'postgres'}"
        sys.stdout.write(f"ragtune: serving {_url(listener)} ({where})\n")
        sys.stdout.flush()

        class Server(uvicorn.Server):
            def handle_exit(self, sig: int, frame: FrameType | None) -> None:
                if ranker is not None:
                    ranker.stop()
                super().handle_exit(sig, frame)

        gc.collect()
        gc.freeze()  # else every full collection looks at all modules again, and holds all requests up for .3 s
        Server(config).run(sockets=[listener])
    return 0


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        raise ConfigError(f"--host {host} --port {port}: cannot listen there ({error})") from error


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
