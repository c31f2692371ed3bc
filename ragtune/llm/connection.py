"""One exchange with the service: it ends by the clock on the wall, and reads no more than it may."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import importlib
import os
import platform
import threading
import weakref
import zlib
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlsplit

from ragtune.core.errors import MissingExtraError
from ragtune.llm.credentials import read_credentials
from ragtune.llm.errors import ServiceKind
from ragtune.llm.retry import retry_after_s
from ragtune.llm.wire import Usage, read_json, read_usage, server_message

T = TypeVar("T")

_DETAIL_CHARS = 300
_PATHS = {"chat": "/chat/completions", "embeddings": "/embeddings"}
_GZIP = zlib.MAX_WBITS | 16


@dataclass(frozen=True)
class Failure:
    """Why an exchange gave nothing of use, without any secret.

    Attributes:
        kind: see :class:`ragtune.llm.errors.ServiceError`.
        detail: the reason in words.
        retryable: whether another attempt may succeed.
        retry_after_s: seconds that the server asks to wait, None where it does not.
        usage: what the server reported to have been used up all the same.
    """

    kind: ServiceKind
    detail: str
    retryable: bool = True
    retry_after_s: float | None = None
    usage: Usage = field(default_factory=Usage)

    @property
    def is_sick(self) -> bool:
        """Whether the failure speaks against the service's health; a rate limit or a refused request does not."""
        return self.kind in ("unavailable", "timeout", "connection", "malformed_response", "too_large")


class Connection:
    """An open connection of OpenAI's library, with the secrets that it was opened with.

    Exchanges run in an event loop of their own thread, since only what awaits can be stopped at any moment: while a
    name is looked up, a connection made, headers and body dripped. The library's own timeouts count from byte to byte.

    Args:
        base_url, default_base_url, api_key_env: see :func:`ragtune.llm.credentials.read_credentials`.
        max_body_bytes: size of an unpacked reply; a longer reply is not read to its end.
        follow_redirects: whether a request is sent again to where a reply redirects it.

    Raises:
        ConfigError: if the key is missing or an address cannot be used.
        MissingExtraError: if the extra ``llm`` is not installed.
    """

    def __init__(
        self,
        base_url: str | None,
        default_base_url: str | None,
        api_key_env: str,
        max_body_bytes: int,
        follow_redirects: bool = False,
    ) -> None:
        try:
            import openai
        except ModuleNotFoundError:
            raise MissingExtraError("a language model or a reranker over HTTP", "llm") from None
        credentials = read_credentials(base_url, default_base_url, api_key_env)
        self._redactor = credentials.redactor
        self._max_body_bytes = max_body_bytes
        # Its HTTP library goes by more than one name, and is the one that the client class is derived from.
        self._http = importlib.import_module(openai.DefaultAsyncHttpxClient.__mro__[1].__module__.partition(".")[0])
        self._client = openai.AsyncOpenAI(
            api_key=credentials.key,
            base_url=credentials.base_url,
            default_headers={"Accept-Encoding": "gzip", **credentials.headers},
            timeout=None,  # ours is for the whole exchange
            max_retries=0,  # ours are counted, timed and repeatable
            http_client=openai.DefaultAsyncHttpxClient(
                timeout=None, follow_redirects=follow_redirects, event_hooks={"response": [self._read]}
            ),
        )
        self._base_url = credentials.base_url
        self._redactor.watch_logs()
        _run(_warm_up())
        self.owner = os.getpid()
        self._close = weakref.finalize(self, _shut, self._client.close, self.owner)
        self._close.atexit = False  # the process ends them

    def post(self, call: str, body: Mapping[str, Any], parse: Callable[[Any], T], within_s: float) -> T | Failure:
        """What ``parse`` makes of the reply's JSON, of which it is given nothing secret.

        Args:
            call: ``chat`` or ``embeddings`` of the API behind the address; ``rerank``, if that is the address.
            body: the request in JSON, ``model`` and all.
            parse: its ValueError says what is wrong with the reply.
            within_s: seconds until the exchange is broken off, > 0.
        """
        # Failures are returned and raised elsewhere: an error raised here would drag along, as its context, an
        # exception that holds the request with its authorization header.
        text = _run(self._exchange(_PATHS.get(call, self._base_url), body, within_s))
        if isinstance(text, Failure):
            return text
        reply: Any = None
        try:
            reply = self._redactor.json(read_json(text))
            return parse(reply)
        except (ValueError, RecursionError) as error:
            told = server_message(reply) if isinstance(reply, Mapping) else ""  # an error, with a status of success
            detail = f"unusable reply: the server says {told!r}" if told else f"unusable reply: {error}"
            return Failure("malformed_response", self._readable(detail), usage=read_usage(reply))

    def close(self) -> None:
        """Close the connection for good."""
        closing = self._close()
        if closing is not None:
            closing.result()

    async def _exchange(self, path: str, body: Mapping[str, Any], within_s: float) -> str | Failure:
        import openai

        try:
            async with asyncio.timeout(within_s):
                response = await self._client.post(path, body=dict(body), cast_to=self._http.Response)
                text: str = response.text
                return text
        except TimeoutError:
            return Failure("timeout", f"no whole answer within {within_s:.3g} s")
        except openai.APIStatusError as error:
            return self._refused(error)
        except Exception as error:  # of the HTTP library or ours; which ones are wrapped depends on the version
            cause = error if isinstance(error, _UnreadableError) else error.__cause__ or error
            if isinstance(cause, _UnreadableError):
                return Failure(cause.kind, str(cause), retryable=False)
            detail = self._readable(str(cause) or type(cause).__name__)
            return Failure("connection", detail, retryable=isinstance(error, openai.APIConnectionError))

    def _refused(self, error: Any) -> Failure:
        status, kind = error.status_code, _kind(error.status_code)
        told = server_message(error.body) or error.response.text
        if error.response.has_redirect_location:
            target = urlsplit(error.response.headers["location"])
            told = (
                f"it redirects to {target.scheme}://{target.netloc}, which is not followed"
                if target.netloc
                else ("it redirects to another path, which is not followed")
            )
        detail = self._readable(f"HTTP {status}: {told}")
        # An account without money is a 429 as well, but no waiting fills it.
        retryable = kind != "rejected" and error.code != "insufficient_quota"
        try:
            usage = read_usage(read_json(error.response.text))
        except (ValueError, RecursionError):
            usage = Usage()
        return Failure(kind, detail, retryable, retry_after_s(error.response.headers), usage)

    def _readable(self, text: str) -> str:
        return " ".join(self._redactor.text(text).split())[:_DETAIL_CHARS]

    async def _read(self, response: Any) -> None:
        """Replace the response's stream, of whatever status, by its unpacked body.

        Raises:
            _UnreadableError: if it is too long, or packed in a way that was not asked for.
        """
        body = _Body(self._max_body_bytes, response.headers.get("content-encoding", ""))
        async for chunk in response.stream:
            body.feed(chunk)
        await response.stream.aclose()
        for header in ("content-encoding", "content-length", "transfer-encoding"):
            response.headers.pop(header, None)
        response.encoding = "utf-8"  # JSON has no other (RFC 8259, section 8.1)
        response.stream = self._http.ByteStream(bytes(body.content))


class _UnreadableError(Exception):
    def __init__(self, kind: ServiceKind, message: str) -> None:
        super().__init__(message)
        self.kind: ServiceKind = kind


class _Body:
    """Unpacks as it is fed, and never holds more than ``limit`` bytes."""

    def __init__(self, limit: int, encoding: str) -> None:
        self.content = bytearray()
        self._limit = limit
        packed = encoding.strip().lower()
        if packed not in ("", "identity", "gzip"):
            raise _UnreadableError("malformed_response", "unusable reply: packed otherwise than asked for")
        self._unpacker = None if packed in ("", "identity") else zlib.decompressobj(_GZIP)

    def feed(self, chunk: bytes) -> None:
        room = self._limit - len(self.content)
        try:
            data = chunk if self._unpacker is None else self._unpacker.decompress(chunk, room + 1)
        except zlib.error:
            raise _UnreadableError("malformed_response", "unusable reply: damaged where it was packed") from None
        if len(data) > room:
            raise _UnreadableError("too_large", f"its reply has more than max_body_bytes={self._limit} bytes")
        self.content += data


def _kind(status: int) -> ServiceKind:
    if status == 429:
        return "rate_limited"
    return "unavailable" if status >= 500 or status in (408, 409) else "rejected"


def _run(exchange: Coroutine[Any, Any, T]) -> T:
    """The coroutine's result; it is stopped where the thread that waits for it is interrupted."""
    result = asyncio.run_coroutine_threadsafe(exchange, _loop(os.getpid()))
    try:
        return result.result()
    finally:
        result.cancel()


@functools.cache  # a forked child has no threads of its parent's, and keeps the parent's loop, whose files they share
def _loop(process: int) -> asyncio.AbstractEventLoop:
    """An event loop that runs in a thread for as long as the process."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="ragtune-llm", daemon=True).start()
    return loop


async def _warm_up() -> None:
    """What the libraries would else import and find out in the first request."""
    import anyio

    platform.platform()
    await anyio.getaddrinfo("127.0.0.1", 0)


def _shut(close: Callable[[], Coroutine[Any, Any, None]], owner: int) -> concurrent.futures.Future[None] | None:
    return asyncio.run_coroutine_threadsafe(close(), _loop(owner)) if owner == os.getpid() else None
