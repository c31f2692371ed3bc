"""REST servers as targets, by URL; needs nothing but the standard library."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import Request, urlopen

from ragtune.canonical.conformance.remote import RemoteTarget, TargetError
from ragtune.canonical.conformance.targets import RERANKER
from ragtune.core.errors import ConfigError

_TIMEOUT_S = 60.0
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
"""Method and path of the operations that are no ``POST /v1/NAME``."""


class RestTarget(RemoteTarget):
    """A server that speaks the REST interface (its OpenAPI is at ``/openapi.json``).

    Args:
        url: the part of the address before ``/v1``: ``http(s)://host[:port][/path]``.
        api_key: key that is sent as a bearer token; None sends none.
        reranker: the server's name for the reranker of the golden answers; None if it has none.

    Raises:
        ConfigError: if the URL has another form.
    """

    def __init__(self, url: str, api_key: str | None = None, reranker: str | None = RERANKER) -> None:
        super().__init__(f"rest {url}", reranker)
        self._url = check_url(url)
        self._headers = {"Content-Type": "application/json"}
        if api_key is not None:
            self._headers["Authorization"] = f"Bearer {api_key}"

    def call(self, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        request = self._request(operation, arguments)
        try:
            with urlopen(request, timeout=_TIMEOUT_S) as response:  # noqa: S310 -- check_url: HTTP only
                answer = json.loads(response.read())
        except HTTPError as error:
            said = error.read(_SHOWN).decode(errors="replace")
            raise TargetError(f"{operation}: HTTP {error.code}: {said}") from None
        except (URLError, HTTPException, OSError) as error:
            raise TargetError(f"{operation}: {self._url} cannot be reached ({error})") from None
        except ValueError as error:
            raise TargetError(f"{operation}: the answer is no JSON ({error})") from None
        if not isinstance(answer, dict):
            raise TargetError(f"{operation}: the answer is no JSON object")
        return answer

    def close(self) -> None:
        """Return at once, since there is nothing to release."""

    def _request(self, operation: str, arguments: Mapping[str, Any]) -> Request:
        method, path = ENDPOINTS.get(operation, ("POST", f"/v1/{operation}"))
        in_path = [name for name in arguments if f"{{{name}}}" in path]
        url = self._url + path.format(**{name: quote(str(arguments[name]), safe="") for name in in_path})
        others = {name: value for name, value in arguments.items() if name not in in_path}
        if method == "POST":
            data = json.dumps(others, allow_nan=False).encode()
            return Request(url, data, self._headers, method=method)  # noqa: S310 -- check_url: HTTP only
        url = f"{url}?{urlencode(others, doseq=True)}"
        return Request(url, None, self._headers, method=method)  # noqa: S310 -- check_url: HTTP only


def check_url(url: str) -> str:
    """``url`` without a slash at its end.

    Raises:
        ConfigError: if it is not an HTTP URL.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ConfigError(f"url={url!r}: allowed is http(s)://host[:port][/path]")
    return url.rstrip("/")
