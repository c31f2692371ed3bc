"""One request to the service: sent, retried, timed, and never quoted with a secret in it."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ragtune.core.breaker import CircuitBreaker
from ragtune.core.clock import Clock
from ragtune.core.errors import MissingExtraError
from ragtune.llm.credentials import host_of, read_credentials, redact
from ragtune.llm.errors import CircuitOpenError, ServiceError, ServiceKind
from ragtune.llm.retry import LONGEST_WAIT_S, backoff_s, retry_after_s

T = TypeVar("T")

_DETAIL_CHARS = 300


@dataclass(frozen=True)
class Settings:
    """How requests are sent; see :class:`ragtune.llm.client.LLMClient` for ranges."""

    base_url: str | None
    api_key_env: str
    timeout_s: float
    max_retries: int
    backoff_initial_s: float
    backoff_cap_s: float
    concurrency: int
    breaker_failures: int
    breaker_cooldown_s: float


@dataclass(frozen=True)
class Reply(Generic[T]):
    """What a service replied, with the milliseconds that its request and everything before it took."""

    body: T
    latency_ms: float
    attempts: int
    wasted_ms: float


@dataclass(frozen=True)
class _Failure:
    kind: ServiceKind
    detail: str
    retryable: bool
    retry_after_s: float | None = None

    @property
    def is_sick(self) -> bool:
        """Whether it speaks against the service's health: a rate limit or a refused request does not."""
        return self.kind in ("unavailable", "timeout", "connection", "malformed_response")


class Transport:
    """Sends requests for all threads of a process; made anew in a forked child and after unpickling.

    Args:
        settings: where to and how.
        clock: what durations are read from.
        sleep: waits that many seconds.
    """

    def __init__(self, settings: Settings, clock: Clock, sleep: Callable[[float], None] = time.sleep) -> None:
        self._settings = settings
        self._clock = clock
        self._sleep = sleep
        self.breaker = CircuitBreaker(settings.breaker_failures, settings.breaker_cooldown_s * 1000.0, clock)
        self._slots = threading.BoundedSemaphore(settings.concurrency)
        self._lock = threading.Lock()
        self._connection: Any = None
        self._owner = 0

    def post(self, call: str, body: Mapping[str, Any], salt: bytes, parse: Callable[[Any], T]) -> Reply[T]:
        """The reply to ``body`` (``model`` and all) of the API's ``chat`` or ``embeddings``.

        Args:
            call: ``chat`` or ``embeddings``.
            body: the request in JSON.
            salt: seeds the jitter of retries.
            parse: makes what is wanted of the reply's JSON; its ValueError says what is wrong with the reply.

        Raises:
            ServiceError: if no attempt got a reply.
            CircuitOpenError: if the service failed too often in a row and nothing was sent.
            ConfigError: if the key is missing.
            MissingExtraError: if the extra ``llm`` is not installed.
        """
        create = self._endpoint(call)
        begun = self._clock.now_ms()
        failure: _Failure | None = None
        attempt = 0
        while attempt <= self._settings.max_retries and self.breaker.enter():
            attempt += 1
            reply, failure = self._attempt(lambda: self._send(create, body, parse), attempt, begun)
            if reply is not None:
                return reply
            wait_s = self._wait_s(failure, attempt, salt) if failure else None
            if wait_s is None:
                break
            self._sleep(wait_s)
        if failure is None:
            raise CircuitOpenError(self._open_message(), "circuit_open")
        raise self._error(failure, attempt, self._clock.now_ms() - begun)

    def close(self) -> None:
        """Close the connections; they reopen on use."""
        with self._lock:
            if self._connection is not None and self._owner == os.getpid():
                self._connection.close()
            self._connection = None

    def _attempt(
        self, send: Callable[[], T | _Failure], attempt: int, begun: float
    ) -> tuple[Reply[T] | None, _Failure | None]:
        healthy = None
        try:
            with self._slots:
                started = self._clock.now_ms()
                got = send()
                ended = self._clock.now_ms()
            healthy = not (isinstance(got, _Failure) and got.is_sick)
            if isinstance(got, _Failure) and got.kind == "rate_limited":
                healthy = None
        finally:
            {None: self.breaker.leave, True: self.breaker.succeed, False: self.breaker.fail}[healthy]()
        if isinstance(got, _Failure):
            return None, got
        return Reply(got, ended - started, attempt, started - begun if attempt > 1 else 0.0), None

    def _send(self, create: Callable[..., Any], body: Mapping[str, Any], parse: Callable[[Any], T]) -> T | _Failure:
        # Failures are returned and raised elsewhere: an error raised here would drag along, as its context, an
        # exception that holds the request with its authorization header.
        import openai

        given = {name: body[name] for name in ("model", "messages", "input", "encoding_format") if name in body}
        further = {name: value for name, value in body.items() if name not in given}
        try:
            text = create(**given, extra_body=further).http_response.text
        except openai.APITimeoutError:
            return _Failure("timeout", f"no answer within {self._settings.timeout_s:g} s", retryable=True)
        except openai.APIConnectionError as error:
            return _Failure("connection", self._readable(str(error.__cause__ or error)), retryable=True)
        except openai.APIStatusError as error:
            return self._refused(error)
        try:
            return parse(json.loads(text))
        except (ValueError, RecursionError) as error:
            return _Failure("malformed_response", self._readable(f"unusable reply: {error}"), retryable=True)

    def _refused(self, error: Any) -> _Failure:
        status, kind = error.status_code, _kind(error.status_code)
        detail = self._readable(f"HTTP {status}: {_server_message(error.body) or error.response.text}")
        # An account without money is a 429 as well, but no waiting fills it.
        retryable = kind != "rejected" and error.code != "insufficient_quota"
        return _Failure(kind, detail, retryable, retry_after_s(error.response.headers))

    def _wait_s(self, failure: _Failure, attempt: int, salt: bytes) -> float | None:
        """Seconds until the next attempt; None where there is none."""
        settings = self._settings
        if not failure.retryable or attempt > settings.max_retries:
            return None
        wait_s = backoff_s(attempt, settings.backoff_initial_s, settings.backoff_cap_s, salt)
        if failure.retry_after_s is not None:
            wait_s = failure.retry_after_s
        return wait_s if wait_s <= LONGEST_WAIT_S else None

    def _error(self, failure: _Failure, attempts: int, wasted_ms: float) -> ServiceError:
        times = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        asked = ""
        if failure.retry_after_s is not None and failure.retry_after_s > LONGEST_WAIT_S:
            asked = f"; it asks to wait {failure.retry_after_s:.0f} s, more than the {LONGEST_WAIT_S:g} s allowed"
        message = f"{host_of(self._settings.base_url)} gave no answer in {times} ({failure.detail}{asked})"
        return ServiceError(message, failure.kind, attempts, wasted_ms)

    def _open_message(self) -> str:
        seconds = self.breaker.wait_ms / 1000.0
        return (
            f"{host_of(self._settings.base_url)} failed {self._settings.breaker_failures} times or more in a row: "
            f"nothing is sent for another {seconds:.0f} s"
        )

    def _readable(self, text: str) -> str:
        hidden = redact(text, self._settings.base_url, self._settings.api_key_env)
        return " ".join(hidden.split())[:_DETAIL_CHARS]

    def _endpoint(self, call: str) -> Callable[..., Any]:
        with self._lock:
            if self._connection is None or self._owner != os.getpid():
                self._connection, self._owner = self._connect(), os.getpid()
            api = self._connection
        create: Callable[..., Any] = {
            "chat": api.chat.completions.with_raw_response.create,
            "embeddings": api.embeddings.with_raw_response.create,
        }[call]
        return create

    def _connect(self) -> Any:
        try:
            import openai
        except ModuleNotFoundError:
            raise MissingExtraError("a language model", "llm") from None
        credentials = read_credentials(self._settings.base_url, self._settings.api_key_env)
        return openai.OpenAI(
            api_key=credentials.key,
            base_url=credentials.base_url,
            default_headers=credentials.headers,
            timeout=self._settings.timeout_s,
            max_retries=0,  # ours are counted, timed and repeatable
        )


def _kind(status: int) -> ServiceKind:
    if status == 429:
        return "rate_limited"
    return "unavailable" if status >= 500 or status in (408, 409) else "rejected"


def _server_message(body: object) -> str:
    """The ``message`` of an error body, which OpenAI's library hands over with or without its ``error`` envelope."""
    inner = body.get("error", body) if isinstance(body, Mapping) else None
    message = inner.get("message") if isinstance(inner, Mapping) else inner
    return message if isinstance(message, str) else ""
