"""The systems that conformance checks: anything that answers the operations of the service in JSON."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import Request, urlopen

from ragtune.core.errors import ConfigError, RagtuneError

EMBEDDER = "hashing"
"""Name of the embedder that a target must offer: :class:`ragtune.embedders.hashing.HashingEmbedder` of 256 dims."""

RERANKER = "hashing"
"""Name of the reranker: :class:`ragtune.rerankers.models.bi_encoder.BiEncoderReranker` of that embedder."""

_TIMEOUT_S = 60.0  # of an operation
_SHOWN = 300

_ENDPOINTS = {
    "list_collections": ("GET", "/v1/collections"),
    "create_collection": ("POST", "/v1/collections"),
    "get_collection": ("GET", "/v1/collections/{collection}"),
    "delete_collection": ("DELETE", "/v1/collections/{collection}"),
    "list_documents": ("GET", "/v1/collections/{collection}/documents"),
    "delete_documents": ("DELETE", "/v1/collections/{collection}/documents"),
    "get_chunks": ("GET", "/v1/collections/{collection}/chunks"),
}
"""Method and path of the operations other than ``POST /v1/NAME``."""


class TargetError(RagtuneError):
    """A server refused a request, or its answer had the wrong form."""


class Target(ABC):
    """A server's operations by name; ``reranker`` is its name for the golden answers' one, None if it has none."""

    name: str
    reranker: str | None

    @abstractmethod
    def call(self, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return an operation's answer. Arguments and answer are JSON objects."""


class RestTarget(Target):
    """A server with the REST interface; ``url`` is the part of its address before ``/v1``."""

    def __init__(self, url: str, api_key: str | None = None, reranker: str | None = RERANKER) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ConfigError(f"url={url!r}: allowed is http(s)://host[:port][/path]")
        self.name = f"rest {url}"
        self.reranker = reranker
        self._url = url.rstrip("/")
        self._headers = {"Content-Type": "application/json"}
        if api_key is not None:
            self._headers["Authorization"] = f"Bearer {api_key}"

    def call(self, operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        method, path = _ENDPOINTS.get(operation, ("POST", f"/v1/{operation}"))
        others = {name: value for name, value in arguments.items() if f"{{{name}}}" not in path}
        url = self._url + path.format(**{name: quote(str(value), safe="") for name, value in arguments.items()})
        data = json.dumps(others, allow_nan=False).encode() if method == "POST" else None
        if data is None:
            url = f"{url}?{urlencode(others, doseq=True)}"
        request = Request(url, data, self._headers, method=method)  # noqa: S310 -- HTTP only
        try:
            with urlopen(request, timeout=_TIMEOUT_S) as response:  # noqa: S310 -- HTTP only
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
