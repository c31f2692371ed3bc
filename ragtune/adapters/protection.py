"""What every request passes before an adapter sees it, REST or MCP: admission, host, origin, key, size, speed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from ragtune.adapters.errors import MEDIA_TYPE, AdapterError, Problem, headers_of, problem_of
from ragtune.adapters.limits import ServerLimits
from ragtune.adapters.security import Security

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""Paths that need no key and no place: who watches over the server has none."""


class Protection:
    """ASGI middleware. A request's body is read here, within the limits, and handed on as a whole.

    Args:
        app: what is protected.
        security: what requests must show.
        limits: what they are given.
    """

    def __init__(self, app: ASGIApp, security: Security, limits: ServerLimits) -> None:
        self._app = app
        self._security = security
        self._limits = limits
        self._in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        is_open = scope["path"] in OPEN_PATHS
        try:
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            self._security.check(headers)
            if not is_open:
                self._security.check_key(headers)
                if self._in_flight >= self._limits.in_flight:
                    raise AdapterError("saturated", f"{self._in_flight} requests are under way.", {"Retry-After": "1"})
        except AdapterError as error:
            await _refuse(error, send)
            return
        self._in_flight += not is_open
        try:
            await self._serve(scope, headers, receive, send)
        finally:
            self._in_flight -= not is_open

    async def _serve(self, scope: Scope, headers: dict[str, str], receive: Receive, send: Send) -> None:
        try:
            first = await self._read(headers, receive)
        except AdapterError as error:
            await _refuse(error, send)
            return
        if first is None:  # the client is gone
            return
        body: Message | None = first

        async def replay() -> Message:
            nonlocal body
            if body is None:
                return await receive()
            message, body = body, None
            return message

        await self._app(scope, replay, send)

    async def _read(self, headers: dict[str, str], receive: Receive) -> Message | None:
        """The whole body in one message."""
        declared = headers.get("content-length", "")
        if declared.isdigit():
            self._check_size(int(declared))
        if "content-encoding" in headers:
            raise AdapterError("unsupported-media-type", "Content-Encoding: allowed is none.")
        try:
            async with asyncio.timeout(self._limits.timeout_s):
                return await self._collect(receive)
        except TimeoutError:
            detail = f"It was not complete after {self._limits.timeout_s:g} s."
            raise AdapterError("slow-request", detail, {"Connection": "close"}) from None

    async def _collect(self, receive: Receive) -> Message | None:
        body = bytearray()
        while (message := await receive())["type"] == "http.request":
            body += message.get("body", b"")
            self._check_size(len(body))
            if not message.get("more_body"):
                return {"type": "http.request", "body": bytes(body), "more_body": False}
        return None

    def _check_size(self, size: int) -> None:
        if size > self._limits.body_bytes:
            detail = f"Allowed are at most {self._limits.body_bytes} bytes."
            raise AdapterError("too-large", detail, {"Connection": "close"})


def response_headers(error: Exception, found: Problem) -> dict[str, str]:
    """All headers of a problem's response."""
    return {"Content-Type": MEDIA_TYPE, "Cache-Control": "no-store", **headers_of(error, found)}


async def _refuse(error: AdapterError, send: Send) -> None:
    found = problem_of(error)
    body = found.to_json()
    headers = {**response_headers(error, found), "Content-Length": str(len(body))}
    pairs = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": found.status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})
