"""One request to the service: sent, retried, timed, and never quoted with a secret in it."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from ragtune.core.arguments import check_count, check_number, check_positive
from ragtune.core.batches.breaker import CircuitBreaker, Permit
from ragtune.core.request.clock import Clock
from ragtune.llm.connection import Connection, Failure
from ragtune.llm.credentials import check_base_url, check_variable, host_of
from ragtune.llm.deadline import Deadline
from ragtune.llm.errors import CircuitOpenError, ServiceError
from ragtune.llm.retry import LONGEST_WAIT_S, backoff_s
from ragtune.llm.wire import Usage

T = TypeVar("T")


@dataclass(frozen=True)
class Settings:
    """How requests are sent; see :class:`ragtune.llm.client.LLMClient`."""

    base_url: str | None
    default_base_url: str | None
    api_key_env: str
    timeout_s: float
    max_body_bytes: int
    max_retries: int
    backoff_initial_s: float
    backoff_cap_s: float
    concurrency: int
    breaker_failures: int
    breaker_cooldown_s: float
    follow_redirects: bool = False

    def checked(self, who: str) -> Settings:
        """These settings, if they can be.

        Args:
            who: whose they are, for messages.

        Raises:
            ConfigError: on a value out of range.
        """
        check_positive(f"{who} timeout_s", self.timeout_s)
        for name, low in {"max_body_bytes": 1, "max_retries": 0, "concurrency": 1, "breaker_failures": 1}.items():
            check_count(f"{who} {name}", getattr(self, name), low=low)
        for name in ("backoff_initial_s", "backoff_cap_s", "breaker_cooldown_s"):
            check_number(f"{who} {name}", getattr(self, name), low=0.0)
        check_variable(self.api_key_env, who)
        return replace(
            self,
            base_url=check_base_url(f"{who} base_url", self.base_url),
            default_base_url=check_base_url(f"{who} default_base_url", self.default_base_url),
        )

    @property
    def host(self) -> str:
        """Host and path of the service, without user or password."""
        return host_of(self.base_url, self.default_base_url)


@dataclass(frozen=True)
class Reply(Generic[T]):
    """What a service replied, with the milliseconds that its request and everything before it took, and the tokens
    that the server reported for the attempts before it."""

    body: T
    latency_ms: float
    attempts: int
    wasted_ms: float
    wasted: Usage = field(default_factory=Usage)


@dataclass(frozen=True)
class _Attempt(Generic[T]):
    got: T | Failure
    started_ms: float
    ended_ms: float
    is_sent: bool = True


class Transport:
    """Sends requests for all threads of a process; made anew in a forked child and after unpickling.

    Args:
        settings: address of the service and how requests are sent.
        clock: clock that durations are read from.
        sleep: function that waits the given number of seconds.
    """

    def __init__(self, settings: Settings, clock: Clock, sleep: Callable[[float], None] = time.sleep) -> None:
        self._settings = settings
        self._clock = clock
        self._sleep = sleep
        self.breaker = CircuitBreaker(settings.breaker_failures, settings.breaker_cooldown_s * 1000.0, clock)
        self._slots = threading.BoundedSemaphore(settings.concurrency)
        self._lock = threading.Lock()
        self._connection: Connection | None = None

    def connect(self) -> Connection:
        """The open connection, opened on first use; nothing is sent.

        Raises:
            ConfigError: if the key is missing.
            MissingExtraError: if the extra ``llm`` is not installed.
        """
        settings = self._settings
        with self._lock:
            if self._connection is None or self._connection.owner != os.getpid():
                self._connection = Connection(
                    settings.base_url,
                    settings.default_base_url,
                    settings.api_key_env,
                    settings.max_body_bytes,
                    settings.follow_redirects,
                )
            return self._connection

    def post(
        self, call: str, body: Mapping[str, Any], salt: bytes, parse: Callable[[Any], T], deadline: Deadline
    ) -> Reply[T]:
        """The reply to ``body``.

        Args:
            call: ``chat``, ``embeddings`` or ``rerank``, see :meth:`ragtune.llm.connection.Connection.post`.
            body: the request in JSON.
            salt: seeds the jitter of retries.
            parse: function that reads the reply's JSON; its ValueError says what is wrong with the reply.
            deadline: end of all attempts and waits together.

        Raises:
            ServiceError: if no attempt got a reply.
            CircuitOpenError: if the service failed too often in a row and nothing was sent.
            ConfigError: if the key is missing.
            MissingExtraError: if the extra ``llm`` is not installed.
        """
        connection = self.connect()
        begun = self._clock.now_ms()
        failure: Failure | None = None
        wasted, sent = Usage(), 0
        while sent <= self._settings.max_retries and (permit := self.breaker.enter()):
            attempt = self._attempt(lambda within_s: connection.post(call, body, parse, within_s), deadline, permit)
            sent += attempt.is_sent
            if not isinstance(attempt.got, Failure):
                waited = attempt.started_ms - begun if sent > 1 else 0.0
                return Reply(attempt.got, attempt.ended_ms - attempt.started_ms, sent, waited, wasted)
            failure, wasted = attempt.got, wasted + attempt.got.usage
            wait_s = self._wait_s(failure, sent, salt)
            if wait_s is None:
                break
            if wait_s * 1000.0 >= deadline.left_ms:
                detail = f"{failure.detail}; the next attempt would come after the deadline"
                failure = replace(failure, kind="deadline", detail=detail)
                break
            self._sleep(wait_s)
        if failure is None:
            raise CircuitOpenError(self._open_message(), "circuit_open")
        raise self._error(failure, sent, self._clock.now_ms() - begun, wasted)

    def close(self) -> None:
        """Close the connections; they reopen on use."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._settings, self._clock, self._sleep)

    def _attempt(self, send: Callable[[float], T | Failure], deadline: Deadline, permit: Permit) -> _Attempt[T]:
        """One request, as soon as there is a slot; whether it went well or not is told to the breaker."""
        healthy = None
        try:
            attempt = self._in_slot(send, deadline)
            failure = attempt.got if isinstance(attempt.got, Failure) else None
            if failure is None or failure.kind not in ("rate_limited", "deadline"):
                healthy = failure is None or not failure.is_sick
            return attempt
        finally:
            if healthy:
                self.breaker.succeed()
            else:
                (self.breaker.leave if healthy is None else self.breaker.fail)(permit)

    def _in_slot(self, send: Callable[[float], T | Failure], deadline: Deadline) -> _Attempt[T]:
        queued = self._clock.now_ms()
        left_s = deadline.left_ms / 1000.0
        if not self._slots.acquire(timeout=None if math.isinf(left_s) else min(left_s, threading.TIMEOUT_MAX)):
            late = Failure("deadline", "no request could be sent before the deadline", retryable=False)
            return _Attempt(late, queued, self._clock.now_ms(), is_sent=False)
        try:
            started, left_s = self._clock.now_ms(), deadline.left_ms / 1000.0
            if left_s <= 0.0:
                late = Failure("deadline", "the deadline had passed", retryable=False)
                return _Attempt(late, queued, started, is_sent=False)
            got = send(min(self._settings.timeout_s, left_s))
            if isinstance(got, Failure) and got.kind == "timeout" and left_s < self._settings.timeout_s:
                got = replace(got, kind="deadline", retryable=False, detail=f"{got.detail}, the time that was left")
            return _Attempt(got, started, self._clock.now_ms())
        finally:
            self._slots.release()

    def _wait_s(self, failure: Failure, attempt: int, salt: bytes) -> float | None:
        """Seconds until the next attempt; None where there is none."""
        settings = self._settings
        if not failure.retryable or attempt > settings.max_retries:
            return None
        wait_s = backoff_s(attempt, settings.backoff_initial_s, settings.backoff_cap_s, salt)
        if failure.retry_after_s is not None:
            wait_s = failure.retry_after_s
        return wait_s if wait_s <= LONGEST_WAIT_S else None

    def _error(self, failure: Failure, attempts: int, wasted_ms: float, wasted: Usage) -> ServiceError:
        times = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        asked = ""
        if failure.retry_after_s is not None and failure.retry_after_s > LONGEST_WAIT_S:
            asked = f"; it asks to wait {failure.retry_after_s:.0f} s, more than the {LONGEST_WAIT_S:g} s allowed"
        message = f"{self._settings.host} gave no answer in {times} ({failure.detail}{asked})"
        bill = wasted.prompt_tokens or 0, wasted.completion_tokens or 0
        return ServiceError(message, failure.kind, attempts, wasted_ms, False, *bill)

    def _open_message(self) -> str:
        seconds = self.breaker.wait_ms / 1000.0
        return (
            f"{self._settings.host} failed {self._settings.breaker_failures} times or more in a row: "
            f"nothing is sent for another {seconds:.0f} s"
        )
