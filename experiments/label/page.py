"""Judging on a page that this machine alone can open."""

from __future__ import annotations

import json
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any

from experiments.label.desk import GRADES, LEGEND, SKIPPED, Desk
from ragtune.core.errors import ConfigError

PAGE = Path(__file__).with_name("page.html")
HOST = "127.0.0.1"
MAX_BODY = 10_000
"""Bytes of a request; ids are short."""

TIMEOUT_S = 10.0
"""Seconds that a connection may stay silent; browsers open some that they do not use."""


def serve_page(desk: Desk, port: int) -> ThreadingHTTPServer:
    """The server of the page, which listens on 127.0.0.1 already; ``serve_forever()`` serves."""

    class Handler(_Handler):
        pass

    Handler.desk, Handler.turn = desk, Lock()
    try:
        return ThreadingHTTPServer((HOST, port), Handler)
    except (OSError, OverflowError) as error:
        raise ConfigError(f"--port {port}: {error}; allowed is a free port, or 0 for any") from None


class _Handler(BaseHTTPRequestHandler):
    """``GET /`` is the page, ``GET /state`` what it shows, ``POST /act`` what a key does."""

    desk: Desk
    turn: Lock  # one request at a time reads or changes the labels
    timeout = TIMEOUT_S

    def do_GET(self) -> None:
        if not self._is_ours():
            self._send(HTTPStatus.FORBIDDEN, {"error": "this page is for this machine only"})
        elif self.path == "/":
            self._reply(HTTPStatus.OK, "text/html; charset=utf-8", PAGE.read_bytes())
        elif self.path == "/state":
            with self.turn:
                self._send(HTTPStatus.OK, self._state())
        else:
            self._send(HTTPStatus.NOT_FOUND, {"error": "allowed are / and /state"})

    def do_POST(self) -> None:
        """Do what a key says: ``{"action": 0 | 1 | 2 | 3 | "skip" | "undo", "query_id": ..., "doc_id": ...}``."""
        # A page of another origin can send no JSON without being asked first, which nothing here answers.
        if not self._is_ours() or self.headers.get("Content-Type") != "application/json" or self.path != "/act":
            self._send(HTTPStatus.FORBIDDEN, {"error": "allowed is JSON to /act, from this page"})
            return
        try:
            length = int(self.headers["Content-Length"])
            wish = json.loads(self.rfile.read(min(max(0, length), MAX_BODY)))
            action, shown = wish["action"], (wish.get("query_id"), wish.get("doc_id"))
        except (ValueError, TypeError, KeyError, AttributeError):
            self._send(HTTPStatus.BAD_REQUEST, {"error": "allowed is an object with action, query_id and doc_id"})
            return
        with self.turn:
            self._act(action, shown)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing of single requests."""

    def _act(self, action: Any, shown: tuple[object, object]) -> None:
        task = self.desk.next()
        if action == "undo":
            self.desk.undo()
        elif task is None or shown != (task.query_id, task.doc_id):
            pass  # a key pressed twice, or in a second window: the state says what is asked now
        elif action == SKIPPED or (type(action) is int and action in GRADES):
            self.desk.grade(task, action)
        else:
            self._send(HTTPStatus.BAD_REQUEST, {"error": "allowed actions are 0, 1, 2, 3, skip and undo"})
            return
        self._send(HTTPStatus.OK, self._state())

    def _state(self) -> dict[str, Any]:
        task = self.desk.next()
        return {"text": self.desk.verdict().text, "legend": list(LEGEND), "task": None if task is None else vars(task)}

    def _is_ours(self) -> bool:
        """Whether the address is this server's by its own name: a foreign name may be pointed at it."""
        host, port = self.headers.get("Host"), self.connection.getsockname()[1]
        return host in (f"{HOST}:{port}", f"localhost:{port}")

    def _send(self, status: HTTPStatus, content: dict[str, Any]) -> None:
        self._reply(status, "application/json", json.dumps(content).encode())

    def _reply(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        headers = {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store",
            "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
            "connect-src 'self'; frame-ancestors 'none'",
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
