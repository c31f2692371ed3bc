"""One exchange with the service, which ends by the wall clock and reads no more than it may."""

from __future__ import annotations

import asyncio
import functools
import os
import threading
import weakref
import zlib
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from time import time
from typing import Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from pydantic_core import to_json

from ragtune.core.errors import MissingExtraError
from ragtune.llm.credentials import Credentials
from ragtune.llm.errors import ServiceKind
from ragtune.llm.wire import TokenUsage, read_json, read_usage, server_message

T = TypeVar("T")

MOST_BODY_BYTES = 16 * 2**20
"""The size of an unpacked reply; a longer one is not read to its end."""

_DETAIL_CHARS = 300
_KINDS: dict[int, ServiceKind] = {408: "unavailable", 409: "unavailable", 413: "oversized", 429: "rate_limited"}
_IDLE_S = 4.0  # that a connection is used again: many servers close theirs after five seconds
_inherited: list[Any] = []  # sessions; if a fork freed one, its parent could no longer read its own sockets


@dataclass(frozen=True)
class Failure:
    """Why an exchange gave nothing of use, without any secret."""

    kind: ServiceKind
    detail: str
    retryable: bool = True
    retry_after_s: float | None = None
    usage: TokenUsage = field(default_factory=TokenUsage)
    is_sent: bool = True
    is_unanswered: bool = False  # the service may have done the work, and bills it

    @property
    def is_sick(self) -> bool:
        """Whether the failure speaks against the service's health; a rate limit or a refused request does not."""
        return self.kind in ("unavailable", "timeout", "connection", "malformed_response", "too_large")


def http_library() -> Any:
    """The HTTP library, or a MissingExtraError that names the extra."""
    try:
        import aiohttp
    except ModuleNotFoundError:
        raise MissingExtraError("a language model or a reranker over HTTP", "llm") from None
    return aiohttp


class Connection:
    """A pool of connections to one service, in an event loop: only a coroutine can be stopped at any moment."""

    def __init__(self, credentials: Credentials, follow_redirects: bool = False) -> None:
        self.owner = os.getpid()
        self._credentials = credentials
        self._follows = follow_redirects
        address, proxies = urlsplit(credentials.base_url), getproxies()
        # Looked up by the library, a proxy takes a thread at every call.
        proxy = None if proxy_bypass(address.netloc) else proxies.get(address.scheme, proxies.get("all"))
        headers = {"Accept-Encoding": "gzip", **credentials.headers}
        self._session = _run(_open(http_library(), headers, proxy))
        self._close = weakref.finalize(self, _shut, self._session, self.owner)
        self._close.atexit = False  # the end of the process closes them

    def post(self, path: str, body: Mapping[str, Any], parse: Callable[[Any], T], within_s: float) -> T | Failure:
        """Return what ``parse`` makes of the reply's JSON, from which secrets have been removed."""
        # Failures are returned and raised elsewhere: an error raised here would have, as its context, an exception
        # that holds the request with its authorization header.
        text = _run(self._exchange(self._credentials.base_url + path, body, within_s))
        if isinstance(text, Failure):
            return text
        reply: Any = None
        try:
            reply = read_json(text)
            return parse(reply)
        except (ValueError, RecursionError) as error:
            said = server_message(reply) if isinstance(reply, Mapping) else ""  # an error with a status of success
            detail = f"unusable reply: the server says {said!r}" if said else f"unusable reply: {error}"
            return Failure("malformed_response", self._readable(detail), usage=read_usage(reply))

    def close(self) -> None:
        closing = self._close()
        if closing is not None:
            closing.result()

    async def _exchange(self, url: str, body: Mapping[str, Any], within_s: float) -> str | Failure:
        import aiohttp

        headers = {"Content-Type": "application/json"}
        sent = self._session.post(url, data=to_json(dict(body)), headers=headers, allow_redirects=self._follows)
        try:
            async with asyncio.timeout(within_s), sent as response:
                coding = response.headers.get("content-encoding", "identity").strip().lower()
                if coding not in ("identity", "gzip"):
                    return Failure("malformed_response", "unusable reply: packed otherwise than asked for", False)
                unpacked, content = zlib.decompressobj(31), bytearray()
                async for chunk in response.content.iter_any():
                    # A few bytes can unpack to gigabytes at once.
                    content += unpacked.decompress(chunk, MOST_BODY_BYTES + 1) if coding == "gzip" else chunk
                    if len(content) > MOST_BODY_BYTES:
                        detail = f"its reply has more than {MOST_BODY_BYTES} bytes"
                        return Failure("too_large", detail, retryable=False)
        except TimeoutError:
            return Failure("timeout", f"no whole answer within {within_s:.3g} s", is_unanswered=True)
        except zlib.error:
            return Failure("malformed_response", "unusable reply: damaged where it was packed", retryable=False)
        except aiohttp.ClientError as error:
            detail = self._readable(str(error) or type(error).__name__)
            retryable = not isinstance(error, aiohttp.InvalidURL | aiohttp.TooManyRedirects)
            reached = not isinstance(error, aiohttp.InvalidURL | aiohttp.ClientConnectorError)
            return Failure("connection", detail, retryable, is_unanswered=reached)
        # JSON has no other encoding (RFC 8259, section 8.1).
        text = self._credentials.hidden_in(content.decode(errors="replace"))
        return text if 200 <= response.status < 300 else self._refused(response, text)

    def _refused(self, response: Any, text: str) -> Failure:
        try:
            body = read_json(text)
        except (ValueError, RecursionError):
            body = text
        said = server_message(body) or text
        if 300 <= response.status < 400 and "location" in response.headers:
            target = urlsplit(response.headers["location"])
            where = f"{target.scheme}://{target.netloc}" if target.netloc else "another path"
            said = f"it redirects to {where}, which is not followed"
        kind = _KINDS.get(response.status, "unavailable" if response.status >= 500 else "rejected")
        # An account without money is a 429 as well, but no waiting fills it.
        retryable = kind not in ("rejected", "oversized") and '"insufficient_quota"' not in text
        detail = self._readable(f"HTTP {response.status}: {said}")
        return Failure(kind, detail, retryable, retry_after_s(response.headers), read_usage(body))

    def _readable(self, text: str) -> str:
        return " ".join(self._credentials.hidden_in(text).split())[:_DETAIL_CHARS]


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that the server asks to wait (RFC 9110, section 10.2.3: a number or a date), or None."""
    value = headers.get("retry-after", "").strip()
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time()
        except ValueError:
            return None
    return max(0.0, seconds) if seconds == seconds else None


def _run(exchange: Coroutine[Any, Any, T]) -> T:
    """Return the coroutine's result; stop it if the waiting thread is interrupted."""
    result = asyncio.run_coroutine_threadsafe(exchange, _loop(os.getpid()))
    try:
        return result.result()
    finally:
        result.cancel()


@functools.cache  # by process: a forked child has none of its parent's threads, and shares the files of its loop
def _loop(process: int) -> asyncio.AbstractEventLoop:
    """Start an event loop in a thread that lives as long as the process."""
    try:
        from uvloop import new_event_loop  # the server's extra brings it: a call takes less time
    except ImportError:
        from asyncio import new_event_loop  # type: ignore[assignment]
    loop = new_event_loop()
    # The end of the process closes what is still open, which the library would report.
    ours = {"client_session", "connector"}
    loop.set_exception_handler(lambda own, it: None if it.keys() & ours else own.default_exception_handler(it))
    threading.Thread(target=loop.run_forever, name="ragtune-llm", daemon=True).start()
    return loop


def _shut(session: Any, owner: int) -> Future[None] | None:
    if owner == os.getpid():
        return asyncio.run_coroutine_threadsafe(session.close(), _loop(owner))
    _inherited.append(session)
    return None


async def _open(aiohttp: Any, headers: Mapping[str, str], proxy: str | None) -> Any:
    """Make a session in the loop; whoever uses it limits the time and the number of exchanges."""
    await asyncio.get_running_loop().getaddrinfo("127.0.0.1", 0)  # starts the thread that looks names up
    return aiohttp.ClientSession(
        headers=headers,
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_S),
        timeout=aiohttp.ClientTimeout(),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        proxy=proxy,
    )
