"""REST servers as targets, by URL."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import Request, urlopen

from ragtune.canonical.conformance.targets import RERANKER, TIMEOUT_S, Target, TargetError
from ragtune.core.errors import ConfigError

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
    """``url`` without a slash at its end.

    Raises:
        ConfigError: if it is not an HTTP URL.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ConfigError(f"url={url!r}: allowed is http(s)://host[:port][/path]")
    return url.rstrip("/")
