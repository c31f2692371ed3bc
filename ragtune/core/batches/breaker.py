"""A circuit breaker: a service that is down is not asked again and again (Nygard, Release It!, 2007)."""

from __future__ import annotations

import threading

from ragtune.core.request.clock import Clock


class Permit:
    """Permission to send one request; its identity tells the probe from late requests."""


class CircuitBreaker:
    """Lets every request pass while it is closed, and none while it is open.

    After the cooldown it is half-open: one request passes, and its outcome decides between closed and open.

    Args:
        failures: consecutive failures that open the breaker, >= 1.
        cooldown_ms: milliseconds until one request may probe the service.
        clock: clock that the time is read from.

    Attributes:
        error: the first failure since the last success; empty where none was described.
    """

    def __init__(self, failures: int, cooldown_ms: float, clock: Clock) -> None:
        self._limit = failures
        self._cooldown_ms = cooldown_ms
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._opened_ms: float | None = None
        self._probe: Permit | None = None
        self.error = ""

    @property
    def state(self) -> str:
        """``closed``, ``open`` or ``half_open``."""
        with self._lock:
            return self._state()

    @property
    def wait_ms(self) -> float:
        """Milliseconds until a request may pass; 0 where one may now."""
        with self._lock:
            if self._opened_ms is None:
                return 0.0
            return max(0.0, self._opened_ms + self._cooldown_ms - self._clock.now_ms())

    def enter(self) -> Permit | None:
        """What a request may be sent with; None if none may. It must end in :meth:`succeed`, :meth:`fail` or
        :meth:`leave`.
        """
        with self._lock:
            state = self._state()
            if state == "open" or (state == "half_open" and self._probe is not None):
                return None
            permit = Permit()
            if state == "half_open":
                self._probe = permit
            return permit

    def succeed(self) -> None:
        """The service answered: close."""
        with self._lock:
            self._failures, self._opened_ms, self._probe, self.error = 0, None, None, ""

    def fail(self, permit: Permit, error: str = "") -> None:
        """The service failed: open after too many in a row, or at once if this was the probe.

        A late failure of a request from before the breaker opened does not put off the next probe.
        """
        with self._lock:
            self._failures += 1
            self.error = self.error or error
            if self._ends_probe(permit) or (self._opened_ms is None and self._failures >= self._limit):
                self._opened_ms = self._clock.now_ms()

    def leave(self, permit: Permit) -> None:
        """The request says nothing about the service's health (a rate limit, an interrupt)."""
        with self._lock:
            self._ends_probe(permit)

    def _ends_probe(self, permit: Permit) -> bool:
        """Whether the request was the probe; if so, another one may be sent."""
        if permit is not self._probe:
            return False
        self._probe = None
        return True

    def _state(self) -> str:
        if self._opened_ms is None:
            return "closed"
        return "half_open" if self._clock.now_ms() - self._opened_ms >= self._cooldown_ms else "open"
