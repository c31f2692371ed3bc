"""The systems that conformance checks: anything that answers the operations of the service in JSON."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from http.client import HTTPException
from typing import Any, Self
from urllib.error import HTTPError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import Request, urlopen

from ragtune.core.errors import ConfigError, MissingExtraError, RagtuneError

EMBEDDER = "hashing"
"""Name of the embedder that a target must offer: :class:`ragtune.embedders.hashing.HashingEmbedder` of 256 dims."""

RERANKER = "hashing"
"""Name of the reranker: :class:`ragtune.rerankers.models.bi_encoder.BiEncoderReranker` of that embedder."""

TIMEOUT_S = 60.0
"""Seconds that an operation may take."""


class TargetError(RagtuneError):
    """A server refused a request, or its answer had the wrong form."""


class Target(ABC):
    """The operations of a server (those of its OpenAPI document), by name.

    Attributes:
        name: name of the target, for reports.
        reranker: the target's name for the reranker of the golden answers. None if it has none, as reranking is
            optional (rule D9).
    """

    name: str
    reranker: str | None

    @abstractmethod
    def call(self, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return an operation's answer. Arguments and answer are JSON objects."""

    def close(self) -> None:  # noqa: B027 -- most targets hold nothing
        """Release what the target holds. It is safe to call again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


_SHOWN = 300

ENDPOINTS = {
    "list_collections": ("GET", "/v1/collections"),
    "create_collection": ("POST", "/v1/collections"),
    "get_collection": ("GET", "/v1/collections/{collection}"),
    "delete_collection": ("DELETE", "/v1/collections/{collection}"),
    "list_documents": ("GET", "/v1/collections/{collection}/documents"),
    "delete_documents": ("DELETE", "/v1/collections/{collection}/documents"),
    "get_chunks": ("GET", "/v1/collections/{collection}/chunks"),
}
"""Method and path of the operations other than ``POST /v1/NAME``."""


class RestTarget(Target):
    """A server with the REST interface (its OpenAPI document is at ``/openapi.json``).

    Args:
        url: the part of the address before ``/v1``: ``http(s)://host[:port][/path]``.
        api_key: key that is sent as a bearer token; None sends none.
        reranker: the server's name for the reranker of the golden answers; None if it has none.

    Raises:
        ConfigError: if the URL has another form.
    """

    def __init__(self, url: str, api_key: str | None = None, reranker: str | None = RERANKER) -> None:
        self.name = f"rest {url}"
        self.reranker = reranker
        self._url = check_url(url)
        self._headers = {"Content-Type": "application/json"}
        if api_key is not None:
            self._headers["Authorization"] = f"Bearer {api_key}"

    def call(self, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        method, path = ENDPOINTS.get(operation, ("POST", f"/v1/{operation}"))
        others = {name: value for name, value in arguments.items() if f"{{{name}}}" not in path}
        url = self._url + path.format(**{name: quote(str(value), safe="") for name, value in arguments.items()})
        data = json.dumps(others, allow_nan=False).encode() if method == "POST" else None
        if data is None:
            url = f"{url}?{urlencode(others, doseq=True)}"
        request = Request(url, data, self._headers, method=method)  # noqa: S310 -- check_url: HTTP only
        try:
            with urlopen(request, timeout=TIMEOUT_S) as response:  # noqa: S310 -- check_url: HTTP only
                answer = json.loads(response.read())
        except HTTPError as error:
            text = error.read(_SHOWN).decode(errors="replace")
            raise TargetError(f"{operation}: HTTP {error.code}: {text}") from None
        except (HTTPException, OSError) as error:
            raise TargetError(f"{operation}: {self._url} cannot be reached ({error})") from None
        except ValueError as error:
            raise TargetError(f"{operation}: the answer is not JSON ({error})") from None
        if not isinstance(answer, dict):
            raise TargetError(f"{operation}: the answer is not a JSON object")
        return answer


def check_url(url: str) -> str:
    """``url`` without a slash at its end."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ConfigError(f"url={url!r}: allowed is http(s)://host[:port][/path]")
    return url.rstrip("/")


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
