"""What every request passes before an adapter sees it, REST or MCP: admission, host, origin, key, size, speed."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragtune.services import metrics
from ragtune.services.errors import AdapterError, headers_of, problem_of
from ragtune.services.limits import ServerLimits
from ragtune.services.security import Security

STATIC_PATH = "/docs/static"
"""Below it are the files of Swagger UI."""

OPEN_PATHS = frozenset({"/healthz", "/readyz", "/docs", "/openapi.json"})
"""Paths that need neither key nor place: monitoring and the description of the API, which holds no secret."""


def _is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(f"{STATIC_PATH}/")


class Protection:
    """ASGI middleware. A request's body is read here, within the limits, and handed on as a whole.
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
            path = scope["path"]
            if not _is_open(path):
                self._security.check_key(headers)
            if _is_open(path) or path == metrics.PATH:  # served however many requests are under way
                await self._serve(await self._read(headers, receive), scope, receive, send)
                return
            if self._in_flight >= self._limits.in_flight:
                raise AdapterError("saturated", f"{self._in_flight} requests are under way.", {"Retry-After": "1"})
            self._in_flight += 1
            try:
                await self._serve(await self._read(headers, receive), scope, receive, send)
            finally:
                self._in_flight -= 1
        except AdapterError as error:
            await _refuse(scope["path"], error, send)

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
        body = bytearray()
        try:
            async with asyncio.timeout(self._limits.timeout_s):
                while (message := await receive())["type"] == "http.request":
                    body += message.get("body", b"")
                    self._check_size(len(body))
                    if not message.get("more_body"):
                        return {"type": "http.request", "body": bytes(body), "more_body": False}
        except TimeoutError:
            detail = f"It was not complete after {self._limits.timeout_s:g} s."
            raise AdapterError("slow-request", detail, {"Connection": "close"}) from None
        return None

    def _check_size(self, size: int) -> None:
        if size > self._limits.body_bytes:
            detail = f"Allowed are at most {self._limits.body_bytes} bytes."
            raise AdapterError("too-large", detail, {"Connection": "close"})


async def _refuse(path: str, error: AdapterError, send: Send) -> None:
    found = problem_of(error, path)
    body = found.to_json()
    headers = {**headers_of(error, found), "Content-Length": str(len(body))}
    pairs = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": found.status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})
