"""What happens when rerankers fail: how long one is tried, and what becomes of documents that it could not score."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, replace

from pydantic import BaseModel, ConfigDict, Field

from ragtune.core.policy.defaults import RETRY_AFTER_S
from ragtune.core.request.clock import Clock
from ragtune.core.types import FREE, CostObject


class FailurePolicy(BaseModel):
    """Rules for batches that fail as a whole: the reranker raised, or no score that it returned can be used.

    Attributes:
        batches_in_a_row: failed batches in a row after which a strategy is closed for the request, >= 1. More of them
            than there are documents always close it.
        requests_in_a_row: requests in a row without a single scored batch after which a strategy is closed for the
            requests to come, >= 1.
        retry_after_s: seconds after which a strategy so closed is tried again, by one request, >= 0.
        keep_unscored: whether documents whose score was lost (DROPPED) stay in the answer, ordered like all others
            without a score. False leaves them out, which is rule F1 to the letter.

    Examples:
        >>> from ragtune.core.batches.failures import FailurePolicy
        >>> FailurePolicy(batches_in_a_row=2, retry_after_s=5).retry_after_s
        5.0
    """

    batches_in_a_row: int = Field(default=3, ge=1)
    requests_in_a_row: int = Field(default=3, ge=1)
    retry_after_s: float = Field(default=RETRY_AFTER_S, ge=0.0, allow_inf_nan=False)
    keep_unscored: bool = True

    model_config = ConfigDict(frozen=True, extra="forbid")


class BatchCount(BaseModel):
    """How many batches a request sent, how many of them brought no score, and the first failure in words."""

    sent: int = 0
    failed: int = 0
    not_asked: int = 0  # of the failed ones, those that never reached the reranker
    first_error: str | None = None  # of this request, or what closed the strategy before it

    model_config = ConfigDict(frozen=True)


class CircuitBreaker:
    """Opens after ``failures`` in a row; after the cooldown one request probes (Nygard, Release It!, 2007)."""

    def __init__(self, failures: int, cooldown_ms: float, clock: Clock) -> None:
        self._limit = failures
        self._cooldown_ms = cooldown_ms
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._opened_ms: float | None = None
        self._probe: object | None = None  # the permit of the request that probes
        self.error = ""

    @property
    def wait_ms(self) -> float:
        """Milliseconds until a request may pass; 0 where one may now."""
        opened_ms = self._opened_ms
        return 0.0 if opened_ms is None else max(0.0, opened_ms + self._cooldown_ms - self._clock.now_ms())

    def enter(self) -> object | None:
        """A permit to send one request, None if none may be; it must end in ``succeed``, ``fail`` or ``leave``."""
        with self._lock:
            if self.wait_ms or self._probe is not None:
                return None
            permit = object()
            if self._opened_ms is not None:
                self._probe = permit
            return permit

    def succeed(self) -> None:
        with self._lock:
            self._failures, self._opened_ms, self._probe, self.error = 0, None, None, ""

    def fail(self, permit: object, error: str = "") -> None:
        """The service failed: open after too many in a row, or at once if this was the probe, not a late request."""
        with self._lock:
            self._failures += 1
            self.error = self.error or error
            if permit is self._probe or (self._opened_ms is None and self._failures >= self._limit):
                self._opened_ms, self._probe = self._clock.now_ms(), None

    def leave(self, permit: object) -> None:
        """The request says nothing about the service's health (a rate limit, an interrupt)."""
        with self._lock:
            if permit is self._probe:
                self._probe = None


@dataclass
class _Attempts:
    permit: object
    is_sent: bool = False
    in_a_row: int = 0
    has_scored: bool = False
    has_failed: bool = False
    error: str = ""


@dataclass
class BatchBook:
    """One request's batches: the strategies that it may use, the documents without a score, and the real cost."""

    breakers: Mapping[str, CircuitBreaker]
    policy: FailurePolicy
    dropped: dict[str, str] = field(default_factory=dict)
    actual_cost: CostObject = FREE
    mispriced: set[str] = field(default_factory=set)
    too_slow: set[str] = field(default_factory=set)
    sent: int = 0
    failed: int = 0
    not_asked: int = 0

    def __post_init__(self) -> None:
        self.closed = closed_in(self.breakers)
        self.attempts: dict[str, _Attempts] = {}
        self._first_error = next(iter(self.closed.values()), None)

    @property
    def count(self) -> BatchCount:
        return BatchCount(sent=self.sent, failed=self.failed, not_asked=self.not_asked, first_error=self._first_error)

    def has_sent(self, strategy: str) -> bool:
        return strategy in self.attempts and self.attempts[strategy].is_sent

    def admits(self, strategy: str) -> bool:
        """Whether a batch may be sent; the first one of a request asks whether the strategy is closed for the run."""
        if strategy not in self.attempts and strategy not in self.closed:
            breaker = self.breakers[strategy]
            if (permit := breaker.enter()) is None:
                self.closed[strategy] = breaker.error
                self._first_error = self._first_error or breaker.error
            else:
                self.attempts[strategy] = _Attempts(permit)
        return strategy not in self.closed

    def scored(self, strategy: str) -> None:
        self.sent += 1
        attempts = self.attempts[strategy]
        attempts.in_a_row, attempts.has_scored = 0, True

    def failed_with(self, strategy: str, error: str, *, docs: int, is_telling: bool, is_last: bool) -> bool:
        """Whether the strategy is closed for the request now; for the run it counts only if it ``is_telling``."""
        self.sent, self.failed, self._first_error = self.sent + 1, self.failed + 1, self._first_error or error
        attempts = self.attempts[strategy]
        attempts.in_a_row += 1
        attempts.error = attempts.error or error
        attempts.has_failed |= is_telling
        # What failed may be sent again (rule F6), so a policy that never gives up would go on for ever.
        if is_last or attempts.in_a_row >= min(self.policy.batches_in_a_row, docs + 1):
            self.closed[strategy] = attempts.error
        return strategy in self.closed

    def fork(self) -> BatchBook:
        """A book of another request to which the same has happened so far; to the run it is a request of its own."""
        twin = copy(self)
        for name in ("dropped", "mispriced", "too_slow", "closed"):
            setattr(twin, name, copy(getattr(self, name)))
        permits = {strategy: self.breakers[strategy].enter() for strategy in self.attempts}
        twin.attempts = {
            name: replace(self.attempts[name], permit=permit) for name, permit in permits.items() if permit
        }
        return twin

    def close(self) -> None:
        for strategy, attempts in self.attempts.items():
            breaker = self.breakers[strategy]
            if attempts.has_scored:
                breaker.succeed()
            elif attempts.has_failed:
                breaker.fail(attempts.permit, attempts.error)
            else:
                breaker.leave(attempts.permit)


def closed_in(breakers: Mapping[str, CircuitBreaker]) -> dict[str, str]:
    """The strategies that are not tried at present, and why."""
    return {strategy: breaker.error for strategy, breaker in breakers.items() if breaker.wait_ms}
