"""One call of the service: its attempts, their waits, and the bill of all of them."""

from __future__ import annotations

import math
import os
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, TypeVar

from ragtune.core.arguments import check_count, check_number
from ragtune.core.batches.failures import CircuitBreaker
from ragtune.core.errors import LLMError
from ragtune.core.request.clock import Clock
from ragtune.core.request.places import Places
from ragtune.llm.connection import Connection, Failure, http_library
from ragtune.llm.credentials import check_base_url, check_variable, host_of, read_credentials
from ragtune.llm.errors import ServiceError
from ragtune.llm.wire import TokenUsage

I = TypeVar("I")  # noqa: E741
T = TypeVar("T")

LONGEST_WAIT_S = 60.0
"""A server that asks for a longer wait is not waited for: the call fails and says so."""

_LONGEST_BACKOFF_S = 8.0


@dataclass(frozen=True)
class Settings:
    """How requests are sent; see :class:`ragtune.llm.client.LLMClient`."""

    who: str  # in messages
    base_url: str | None
    default_base_url: str | None
    api_key_env: str
    timeout_s: float
    max_retries: int
    backoff_initial_s: float
    concurrency: int
    breaker_failures: int
    breaker_cooldown_s: float
    follow_redirects: bool = False

    def __post_init__(self) -> None:
        check_number(f"{self.who} timeout_s", self.timeout_s, low=1e-9)
        for name, low in {"max_retries": 0, "concurrency": 1, "breaker_failures": 1}.items():
            check_count(f"{self.who} {name}", getattr(self, name), low=low)
        for name in ("backoff_initial_s", "breaker_cooldown_s"):
            check_number(f"{self.who} {name}", getattr(self, name), low=0.0)
        check_variable(f"{self.who} api_key_env", self.api_key_env)
        for name in ("base_url", "default_base_url"):
            object.__setattr__(self, name, check_base_url(f"{self.who} {name}", getattr(self, name)))

    @property
    def host(self) -> str:
        """Host and path of the service, without user or password."""
        return host_of(self.base_url, self.default_base_url)


@dataclass
class Deadline:
    """When a call must have ended, with its retries and waits."""

    clock: Clock
    within_ms: float = math.inf

    def __post_init__(self) -> None:
        self._begun_ms = self.clock.now_ms()

    @property
    def left_ms(self) -> float:
        return max(0.0, self.within_ms - (self.clock.now_ms() - self._begun_ms))


@dataclass(frozen=True)
class Reply(Generic[T]):
    """What a service replied."""

    body: T
    latency_ms: float
    attempts: int
    wasted: TokenUsage = field(default_factory=TokenUsage)
    unanswered: int = 0  # earlier attempts without a whole reply, which the service may bill


class Transport:
    """Sends requests for all threads of a process; made anew in a forked child and after unpickling."""

    def __init__(self, settings: Settings, clock: Clock, sleep: Callable[[float], object] | None = None) -> None:
        self.settings = settings
        self.clock = clock
        self._sleep = sleep
        self._breaker = CircuitBreaker(settings.breaker_failures, settings.breaker_cooldown_s * 1000.0, clock)
        self._places = Places(settings.concurrency)
        self._over = threading.Event()  # of the calls under way
        self._lock = threading.Lock()
        self._connection: Connection | None = None

    def connect(self) -> Connection:
        """Return the open connection, opened on first use; nothing is sent."""
        own = self.settings
        with self._lock:
            if self._connection is None or self._connection.owner != os.getpid():
                http_library()  # a missing extra is reported before a missing key
                credentials = read_credentials(own.base_url, own.default_base_url, own.api_key_env)
                self._connection = Connection(credentials, own.follow_redirects)
            return self._connection

    def post(self, path: str, body: Mapping[str, Any], parse: Callable[[Any], T], deadline: Deadline) -> Reply[T]:
        """Send ``body``, again where that may help, and return the reply."""
        connection, over = self.connect(), self._over
        begun = self.clock.now_ms()
        failure: Failure | None = None
        wasted, sent, unanswered = TokenUsage(), 0, 0
        while sent <= self.settings.max_retries and (permit := self._breaker.enter()):
            send = partial(connection.post, path, body, parse)
            got, took_ms = self._attempt(send, deadline, permit, over)
            if not isinstance(got, Failure):
                return Reply(got, self.clock.now_ms() - begun if sent else took_ms, sent + 1, wasted, unanswered)
            sent, unanswered = sent + got.is_sent, unanswered + got.is_unanswered
            failure, wasted = got, wasted + got.usage
            asks_to_wait = failure.kind == "rate_limited" and failure.retryable and failure.retry_after_s is not None
            if asks_to_wait:  # the other requests wait as well
                self._places.pause(min(failure.retry_after_s or 0.0, LONGEST_WAIT_S))
            wait_s = self._wait_s(failure, sent)
            if wait_s is None:
                break
            if wait_s * 1000.0 >= deadline.left_ms:
                detail = f"{failure.detail}; the next attempt would come after the deadline"
                failure = replace(failure, kind="deadline", detail=detail)
                break
            (self._sleep or over.wait)(wait_s)
            if asks_to_wait:
                self._places.resume()
            if over.is_set():
                break
        if failure is None:
            raise ServiceError(
                f"{self.settings.host} failed {self.settings.breaker_failures} times or more in a row: "
                f"nothing is sent for another {self._breaker.wait_ms / 1000.0:.0f} s",
                "circuit_open",
            )
        error = self._error(failure, sent, self.clock.now_ms() - begun, wasted)
        error.unanswered = unanswered
        raise error

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def give_up(self) -> None:
        """End the calls under way: they fail, and are not sent again."""
        over, self._over = self._over, threading.Event()
        over.set()
        self._places.refuse()
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.settings, self.clock, self._sleep)

    def _attempt(
        self, send: Callable[[float], T | Failure], deadline: Deadline, permit: object, over: threading.Event
    ) -> tuple[T | Failure, float]:
        """The outcome of one request, sent once a slot is free, and its milliseconds; the breaker is told of it."""
        is_well: bool | None = None
        is_free = gave_up = False
        began_s = time.monotonic()
        try:
            is_free = self._places.take(time.monotonic() + deadline.left_ms / 1000.0)
            began_s = time.monotonic()
            started, left_s = self.clock.now_ms(), deadline.left_ms / 1000.0
            if not is_free or left_s <= 0.0 or over.is_set():
                detail = "no request could be sent before the deadline"
                return Failure("deadline", detail, retryable=False, is_sent=False), 0.0
            got = send(min(self.settings.timeout_s, left_s))
            if not isinstance(got, Failure):
                is_well = True
            elif got.kind == "timeout" and left_s < self.settings.timeout_s:
                detail = f"{got.detail}, the time that was left"
                got, gave_up = replace(got, kind="deadline", retryable=False, detail=detail), True
            elif got.kind != "rate_limited":
                is_well = not got.is_sick
            return got, self.clock.now_ms() - started
        finally:
            if is_free:
                self._places.leave(time.monotonic() - began_s, gave_up=gave_up)
            if is_well:
                self._breaker.succeed()
            else:
                (self._breaker.leave if is_well is None else self._breaker.fail)(permit)

    def _wait_s(self, failure: Failure, sent: int) -> float | None:
        """Seconds until the next attempt; None where there is none. Half of the backoff is random."""
        own = self.settings
        if not failure.retryable or sent > own.max_retries:
            return None
        if failure.retry_after_s is not None:
            return failure.retry_after_s if failure.retry_after_s <= LONGEST_WAIT_S else None
        longest = min(_LONGEST_BACKOFF_S, own.backoff_initial_s * 2.0 ** min(sent - 1, 60))
        return longest * random.uniform(0.5, 1.0)  # noqa: S311 - not a secret

    def _error(self, failure: Failure, attempts: int, latency_ms: float, wasted: TokenUsage) -> ServiceError:
        times = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        asked = ""
        if failure.retry_after_s is not None and failure.retry_after_s > LONGEST_WAIT_S:
            asked = f"; it asks to wait {failure.retry_after_s:.0f} s, more than the {LONGEST_WAIT_S:g} s allowed"
        message = f"{self.settings.host} gave no answer in {times} ({failure.detail}{asked})"
        bill = wasted.prompt_tokens or 0, wasted.completion_tokens or 0
        return ServiceError(message, failure.kind, attempts, latency_ms, *bill)


def map_all(call: Callable[[I], T], inputs: Sequence[I], at_once: int) -> list[T | LLMError]:
    """``call`` on every input, ``at_once`` at a time in daemon threads; an ``LLMError`` takes the place of a result."""
    if len(inputs) == 1:
        return [_outcome(call, inputs[0])]
    outcomes: list[Future[T | LLMError]] = [Future() for _ in inputs]
    places, stop = iter(range(len(inputs))), threading.Event()

    def work() -> None:
        for place in places:  # each is some thread's
            if stop.is_set():
                return
            try:
                outcomes[place].set_result(_outcome(call, inputs[place]))
            except BaseException as error:
                outcomes[place].set_exception(error)

    try:
        for _ in range(min(at_once, len(inputs))):
            threading.Thread(target=work, daemon=True).start()
        wait(outcomes)
    finally:
        stop.set()
    return [outcome.result() for outcome in outcomes]


def _outcome(call: Callable[[I], T], given: I) -> T | LLMError:
    try:
        return call(given)
    except LLMError as error:
        return error
