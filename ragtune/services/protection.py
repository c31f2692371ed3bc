"""What every request passes before an adapter sees it, REST or MCP: admission, host, origin, key, size, speed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from ragtune.services import docs, metrics
from ragtune.services.errors import MEDIA_TYPE, AdapterError, Problem, headers_of, problem_at
from ragtune.services.limits import ServerLimits, has_more_values
from ragtune.services.security import Security

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN_PATHS = docs.PATHS | {"/healthz", "/readyz"}
"""Paths that need no key and no place: who watches over the server has none, nor has who opens a page."""

PLACELESS_PATHS = OPEN_PATHS | {metrics.PATH}
"""Paths that are served however many requests are under way. Figures tell of spending, so they need the key."""

_UNFINISHED = 16  # bodies of the largest size allowed that are kept while they are being sent


class Protection:
    """ASGI middleware. A request's body is read here, within the limits, and handed on as a whole.

    A request has a place among those that are served at once from when it is complete, so that slow senders hold none.

    Args:
        app: the ASGI application that is protected.
        security: what a request must show to be served.
        limits: what each request is given.
    """

    def __init__(self, app: ASGIApp, security: Security, limits: ServerLimits) -> None:
        self._app = app
        self._security = security
        self._limits = limits
        self._in_flight = 0
        self._unfinished: dict[asyncio.Timeout, int] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        try:
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            self._security.check(headers)
            if scope["path"] not in OPEN_PATHS:
                self._security.check_key(headers)
            if scope["path"] in PLACELESS_PATHS:
                await self._serve(await self._read(headers, receive), scope, receive, send)
                return
            self._check_room()
            message = await self._read(headers, receive)
            self._check_room()
            self._in_flight += 1
            try:
                await self._check_values(message)
                await self._serve(message, scope, receive, send)
            finally:
                self._in_flight -= 1
        except AdapterError as error:
            await _refuse(scope["path"], error, send)

    def _check_room(self) -> None:
        if self._in_flight >= self._limits.in_flight:
            raise AdapterError("saturated", f"{self._in_flight} requests are under way.", {"Retry-After": "1"})

    async def _check_values(self, message: Message | None) -> None:
        body = b"" if message is None else message["body"]
        limit = self._limits.values
        if len(body) > limit and await asyncio.to_thread(has_more_values, body, limit):
            raise AdapterError("too-large", f"Allowed are at most {limit} values: numbers, strings, lists, objects.")

    async def _serve(self, message: Message | None, scope: Scope, receive: Receive, send: Send) -> None:
        if message is None:  # the client is gone
            return

        async def replay() -> Message:
            nonlocal message
            if message is None:
                return await receive()
            first, message = message, None
            return first

        await self._app(scope, replay, send)

    async def _read(self, headers: dict[str, str], receive: Receive) -> Message | None:
        """The whole body in one message."""
        declared = headers.get("content-length", "")
        if declared.isdigit():
            self._check_size(int(declared))
        if "content-encoding" in headers:
            raise AdapterError("unsupported-media-type", "Content-Encoding: allowed is none.")
        deadline = asyncio.timeout(self._limits.timeout_s)
        try:
            async with deadline:
                return await self._collect(receive, deadline)
        except TimeoutError:
            detail = f"It was not complete after {self._limits.timeout_s:g} s, or took the room of too many others."
            raise AdapterError("slow-request", detail, {"Connection": "close"}) from None
        finally:
            self._unfinished.pop(deadline, None)

    async def _collect(self, receive: Receive, deadline: asyncio.Timeout) -> Message | None:
        body = bytearray()
        while (message := await receive())["type"] == "http.request":
            body += message.get("body", b"")
            self._check_size(len(body))
            self._unfinished[deadline] = len(body)
            self._make_room()
            if not message.get("more_body"):
                return {"type": "http.request", "body": bytes(body), "more_body": False}
        return None

    def _make_room(self) -> None:
        """Give up the largest of the bodies that are still being sent, where they fill the memory meant for them."""
        if sum(self._unfinished.values()) > _UNFINISHED * self._limits.body_bytes:
            largest = max(self._unfinished, key=self._unfinished.__getitem__)
            del self._unfinished[largest]
            largest.reschedule(asyncio.get_running_loop().time())

    def _check_size(self, size: int) -> None:
        if size > self._limits.body_bytes:
            detail = f"Allowed are at most {self._limits.body_bytes} bytes."
            raise AdapterError("too-large", detail, {"Connection": "close"})


def response_headers(error: Exception, found: Problem) -> dict[str, str]:
    """All headers of a problem's response."""
    return {"Content-Type": MEDIA_TYPE, "Cache-Control": "no-store", **headers_of(error, found)}


async def _refuse(path: str, error: AdapterError, send: Send) -> None:
    found = problem_at(path, error)
    body = found.to_json()
    headers = {**response_headers(error, found), "Content-Length": str(len(body))}
    pairs = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": found.status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})
