"""MCP servers as targets, by URL."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from ragtune.canonical.conformance.remote import RemoteTarget, TargetError
from ragtune.canonical.conformance.rest_target import check_url
from ragtune.canonical.conformance.targets import RERANKER
from ragtune.core.errors import MissingExtraError

_TIMEOUT_S = 60.0
_SHOWN = 300


class McpTarget(RemoteTarget):
    """A server that offers the operations as tools over streamable HTTP.

    Args:
        url: URL of the endpoint, e.g. ``http://127.0.0.1:8080/mcp``.
        api_key: key that is sent as a bearer token; None sends none.
        reranker: the server's name for the reranker of the golden answers; None if it has none.

    Raises:
        MissingExtraError: without the extra ``services``.
        ConfigError: if the URL is not an HTTP URL.
        TargetError: if the server cannot be reached.
    """

    def __init__(self, url: str, api_key: str | None = None, reranker: str | None = RERANKER) -> None:
        super().__init__(f"mcp {url}", reranker)
        headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        self._connection = _Connection(check_url(url), headers)

    def call(self, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        try:
            result = self._connection.call(operation, dict(arguments))
        except Exception as error:
            raise TargetError(f"{operation}: {type(error).__name__}: {_first(error)}") from error
        if result.is_error:
            said = " ".join(getattr(item, "text", "") for item in result.content)
            raise TargetError(f"{operation}: {said[:_SHOWN]}")
        if not isinstance(result.structured_content, dict):
            raise TargetError(f"{operation}: the answer has no structured content")
        return result.structured_content

    def close(self) -> None:
        self._connection.close()


class _Connection:
    """An asynchronous client in a thread of its own; one task enters and leaves it, as it must."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        try:
            import httpx2
            import mcp
            from mcp.client.streamable_http import streamable_http_client
        except ImportError as error:
            raise MissingExtraError("conformance of an MCP server", "services") from error
        ready: Future[Any] = Future()

        async def hold() -> None:
            self._leave = asyncio.Event()
            async with (
                httpx2.AsyncClient(headers=headers, timeout=_TIMEOUT_S) as http,
                mcp.Client(streamable_http_client(url, http_client=http)) as client,
            ):
                ready.set_result(client)
                await self._leave.wait()

        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="mcp-target", daemon=True)
        self._thread.start()
        self._held = asyncio.run_coroutine_threadsafe(hold(), self._loop)
        self._held.add_done_callback(lambda held: _tell(ready, held))
        try:
            self._client = ready.result(_TIMEOUT_S)
        except BaseException as error:
            self._stop()
            if not isinstance(error, Exception):
                raise
            raise TargetError(f"{url} cannot be reached ({_first(error)})") from error

    def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        """The result of a tool."""
        return asyncio.run_coroutine_threadsafe(self._client.call_tool(tool, arguments), self._loop).result(_TIMEOUT_S)

    def close(self) -> None:
        """Close the client; calling it again does nothing."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._leave.set)
            self._held.result(_TIMEOUT_S)
            self._stop()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_TIMEOUT_S)
        self._loop.close()


def _tell(ready: Future[Any], held: Future[None]) -> None:
    """Hand on why there is no client, to who waits for one."""
    if not ready.done():
        ready.set_exception(held.exception() or EOFError())


def _first(error: BaseException) -> BaseException:
    """What a group of exceptions is about."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
