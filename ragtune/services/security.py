"""What every request passes before REST or MCP sees it: host, origin, key, a place, size and speed."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import os
import time
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragtune.core.errors import ConfigError
from ragtune.services.dialects.table import problem_at
from ragtune.services.errors import AdapterError, headers_of
from ragtune.services.limits import ServerLimits
from ragtune.services.metrics import PATH as METRICS_PATH
from ragtune.services.status import DATA_PATH, PATH

KEY_VARIABLE = "RAGTUNE_API_KEY"

KEY_ID = "ragtune.key"
"""Entry of a request's scope: the start of its key's digest."""

STATIC_PATH = "/docs/static"
"""Below it are the files of Swagger UI."""

HEALTH = ("/health", "/tei/health", "/vllm/health", "/infinity/health")
"""Where clients and proxies ask whether the server runs."""

_OPEN_PATHS = frozenset({"/", *HEALTH, "/healthz", "/readyz", "/docs", "/openapi.json"})
"""Paths that need neither key nor place: monitoring and the description of the API, which holds no secret."""

_STATUS_PATHS = (PATH, DATA_PATH)
_WATCHED_PATHS = frozenset({METRICS_PATH, *_STATUS_PATHS})
"""Paths that need the key and no place; a browser asks for the key of the page, as a password."""

_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_SHORTEST_KEY = 16


@dataclass(frozen=True)
class Security:
    """The key that a request must show, or one of several that are separated by spaces, and the Host names that it may
    have, against DNS rebinding; None allows all.
    """

    api_key: str | None = field(default=None, repr=False)
    allowed_hosts: frozenset[str] | None = _LOOPBACK_NAMES

    def check(self, headers: Mapping[str, str]) -> None:
        """Refuse a host that is not allowed (421), and web pages of other origins (403)."""
        host = headers.get("host", "")
        if self.allowed_hosts is not None and _name(host) not in self.allowed_hosts:
            raise AdapterError("wrong-host", "The Host header names another server.")
        origin = headers.get("origin")
        if origin is not None and not _is_own_page(origin, host):
            raise AdapterError("forbidden-origin", "The Origin header names a page that is not allowed.")

    def check_key(self, headers: Mapping[str, str], *, is_page: bool = False) -> str:
        """The start of the key's digest, "" where none is needed; a missing or wrong key is refused (401).

        That of a page may be a password.
        """
        if self.api_key is None:
            return ""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        given = headers.get("x-api-key") or (token.strip() if scheme.lower() == "bearer" else "")
        if is_page and scheme.lower() == "basic":
            given = _password(token)
        if not sum(hmac.compare_digest(given.encode(), key.encode()) for key in self.api_key.split()):
            raise AdapterError(
                "unauthorized",
                "Send the API key as 'Authorization: Bearer KEY' or 'X-API-Key: KEY'.",
                {"WWW-Authenticate": 'Basic realm="RAGtune: the key is the password"' if is_page else "Bearer"},
            )
        return sha256(given.encode()).hexdigest()[:12]


def secure(host: str, allowed_hosts: frozenset[str] = frozenset()) -> Security:
    """What a server on that address must ask for; one that is not loopback needs a key from the environment."""
    key = os.environ.get(KEY_VARIABLE) or None
    if key is not None and not (key.isascii() and key.isprintable() and min(map(len, key.split(" "))) >= _SHORTEST_KEY):
        raise ConfigError(
            f"{KEY_VARIABLE}: allowed is a key of at least {_SHORTEST_KEY} visible ASCII characters without spaces, "
            "or several with a space between them"
        )
    if is_loopback(host):
        return Security(key, _LOOPBACK_NAMES | {host.lower()} | allowed_hosts)
    if key is None:
        raise ConfigError(f"host={host!r}: allowed without an API key is loopback only; set {KEY_VARIABLE}")
    return Security(key, allowed_hosts | {host.lower()} if allowed_hosts else None)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach that address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _is_own_page(origin: str, host: str) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    if parts.scheme not in ("http", "https") or not parts.netloc:
        return False
    return parts.netloc.lower() == host.lower() or {_name(host), _name(parts.netloc)} <= _LOOPBACK_NAMES


def _name(netloc: str) -> str:
    name = netloc.rsplit("@", 1)[-1].lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0]


def _password(token: str) -> str:
    try:
        return b64decode(token, validate=True).decode().partition(":")[2]
    except ValueError:
        return ""


class Protection:
    """ASGI middleware that reads whole bodies within the limits; ``answered`` gets every path, status and seconds."""

    def __init__(
        self, app: ASGIApp, security: Security, limits: ServerLimits, answered: Callable[[str, int, float], None]
    ) -> None:
        self._app = app
        self._security = security
        self._limits = limits
        self._answered = answered
        self._in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._counted(scope, receive, send)

    async def _counted(self, scope: Scope, receive: Receive, send: Send) -> None:
        started, status = time.perf_counter(), 0

        async def watched(message: Message) -> None:
            nonlocal status
            status = int(message.get("status", status))
            await send(message)

        try:
            await self._serve(scope, receive, watched)
        except AdapterError as error:
            await _refuse(scope["path"], error, watched)
        finally:
            self._answered(scope["path"], status, time.perf_counter() - started)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        path = scope["path"]
        is_open = path in _OPEN_PATHS or path.startswith(f"{STATIC_PATH}/")
        self._security.check(headers)
        if not is_open:
            scope[KEY_ID] = self._security.check_key(headers, is_page=path in _STATUS_PATHS)
        if is_open or path in _WATCHED_PATHS:  # served however many requests are under way
            await self._hand_on(headers, scope, receive, send)
            return
        if self._in_flight >= self._limits.in_flight:
            raise AdapterError("saturated", f"{self._in_flight} requests are under way.", {"Retry-After": "1"})
        self._in_flight += 1
        try:
            await self._hand_on(headers, scope, receive, send)
        finally:
            self._in_flight -= 1

    async def _hand_on(self, headers: dict[str, str], scope: Scope, receive: Receive, send: Send) -> None:
        message = await self._read(headers, receive)
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
    found = problem_at(path, error)
    body = found.to_json()
    headers = {**headers_of(error, found), "Content-Length": str(len(body))}
    pairs = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": found.status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})
