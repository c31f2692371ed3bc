"""MCP servers as targets, by URL."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

from ragtune.canonical.conformance.rest_target import check_url
from ragtune.canonical.conformance.targets import RERANKER, TIMEOUT_S, Target, TargetError
from ragtune.core.errors import MissingExtraError

_SHOWN = 300


class McpTarget(Target):
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
        check_url(url)
        try:
            import httpx2
            import mcp
            from anyio.from_thread import start_blocking_portal
            from mcp.client.streamable_http import streamable_http_client
        except ImportError as error:
            raise MissingExtraError("conformance of an MCP server", "services") from error
        self.name = f"mcp {url}"
        self.reranker = reranker
        headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}

        async def connect(http: Any) -> Any:
            return mcp.Client(streamable_http_client(url, http_client=http), read_timeout_seconds=TIMEOUT_S)

        with ExitStack() as stack:
            self._portal = stack.enter_context(start_blocking_portal())
            try:
                http = httpx2.AsyncClient(headers=headers, timeout=TIMEOUT_S)
                stack.enter_context(self._portal.wrap_async_context_manager(http))
                client = self._portal.call(connect, http)
                self._client = stack.enter_context(self._portal.wrap_async_context_manager(client))
            except Exception as error:
                raise TargetError(f"{url} cannot be reached ({_first(error)})") from error
            self._stack = stack.pop_all()

    def call(self, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        try:
            result = self._portal.call(partial(self._client.call_tool, operation, dict(arguments)))
        except Exception as error:
            raise TargetError(f"{operation}: {type(error).__name__}: {_first(error)}") from error
        if result.is_error:
            text = " ".join(getattr(item, "text", "") for item in result.content)
            raise TargetError(f"{operation}: {text[:_SHOWN]}")
        if not isinstance(result.structured_content, dict):
            raise TargetError(f"{operation}: the answer has no structured content")
        return result.structured_content

    def close(self) -> None:
        self._stack.close()


def _first(error: BaseException) -> BaseException:
    """The first single exception of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
