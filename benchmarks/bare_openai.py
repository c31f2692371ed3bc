"""Which promises of ``ragtune.llm`` does the openai client keep by itself? A pytest plugin that replaces our transport.

    PYTHONPATH=benchmarks python -m pytest -p bare_openai tests/unit/llm tests/unit/rerankers/test_http.py -n 0

Retries, timeouts, ``Retry-After`` and errors are the client's own. Its waits go through the tests' clock, and its
attempts are counted, so a test fails only where a promise is broken. ``results/notes/removed-before-1.0.0.md`` lists
the tests that fail, with the parts of ``ragtune.llm`` that stay for them.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import httpx2
import openai

from ragtune.llm import transport
from ragtune.llm.credentials import read_credentials
from ragtune.llm.errors import ServiceError, ServiceKind

SENT = threading.local()
KINDS: tuple[tuple[type[Exception], ServiceKind], ...] = (
    (openai.APITimeoutError, "timeout"),
    (openai.APIConnectionError, "connection"),
    (openai.RateLimitError, "rate_limited"),
    (openai.InternalServerError, "unavailable"),
    (openai.APIStatusError, "rejected"),
    (Exception, "malformed_response"),
)


def _count(request: httpx2.Request) -> None:
    SENT.attempts += 1


def connect(self: Any) -> openai.OpenAI:
    """Return the openai client of these settings."""
    if self._connection is None:
        own = self.settings
        found = read_credentials(own.base_url, own.default_base_url, own.api_key_env)
        openai._base_client.time = SimpleNamespace(sleep=self._sleep, time=time.time)
        self._connection = openai.OpenAI(
            api_key=found.headers.get("Authorization", "Bearer none").partition(" ")[2],
            base_url=found.base_url,
            default_headers=dict(found.headers),
            max_retries=own.max_retries,
            timeout=own.timeout_s,
            http_client=httpx2.Client(event_hooks={"request": [_count]}, follow_redirects=own.follow_redirects),
        )
    return self._connection


def post(
    self: Any, path: str, body: Mapping[str, Any], parse: Callable[[Any], Any], deadline: Any
) -> transport.Reply[Any]:
    """Send a request with the client's own retries, and at most the time that is left for each attempt."""
    client, begun, SENT.attempts = self.connect(), self.clock.now_ms(), 0
    options = {} if deadline.left_ms == math.inf else {"timeout": max(0.001, deadline.left_ms / 1000.0)}
    try:
        got = parse(client.post(path or self.settings.base_url, cast_to=object, body=dict(body), options=options))
    except Exception as error:
        kind = next(kind for known, kind in KINDS if isinstance(error, known))
        status = f"HTTP {error.status_code}: " if isinstance(error, openai.APIStatusError) else ""
        times = "1 attempt" if SENT.attempts == 1 else f"{SENT.attempts} attempts"
        said = f"unusable reply: {error}" if kind == "malformed_response" else f"{status}{error}"
        message = f"{self.settings.host} gave no answer in {times} ({said})"
        failed = ServiceError(message, kind, SENT.attempts, self.clock.now_ms() - begun)
    else:
        return transport.Reply(got, self.clock.now_ms() - begun, SENT.attempts)
    raise failed


transport.Transport.connect = connect  # type: ignore[method-assign,assignment]
transport.Transport.post = post  # type: ignore[method-assign,assignment]
