"""A circuit breaker: a service that is down is not asked again and again (Nygard, Release It!, 2007)."""

from __future__ import annotations

import threading

from ragtune.core.request.clock import Clock


class CircuitBreaker:
    """Lets every request pass while it is closed, and none while it is open.

    After the cooldown it is half-open: one request passes, and its outcome decides between closed and open.

    Args:
        failures: consecutive failures that open the breaker, >= 1.
        cooldown_ms: milliseconds until one request may probe the service.
        clock: clock that the time is read from.
    """

    def __init__(self, failures: int, cooldown_ms: float, clock: Clock) -> None:
        self._limit = failures
        self._cooldown_ms = cooldown_ms
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._opened_ms: float | None = None
        self._probing = False

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

    def enter(self) -> bool:
        """Whether a request may be sent. One that may must end in :meth:`succeed`, :meth:`fail` or :meth:`leave`."""
        with self._lock:
            state = self._state()
            if state == "closed":
                return True
            if state == "open" or self._probing:
                return False
            self._probing = True
            return True

    def succeed(self) -> None:
        """The service answered: close."""
        with self._lock:
            self._failures, self._opened_ms, self._probing = 0, None, False

    def fail(self) -> None:
        """The service failed: open after too many in a row, or at once if this was the probe."""
        with self._lock:
            self._failures += 1
            if self._probing or self._failures >= self._limit:
                self._opened_ms = self._clock.now_ms()
            self._probing = False

    def leave(self) -> None:
        """The request told nothing about the service's health (a rate limit, an interrupt)."""
        with self._lock:
            self._probing = False

    def _state(self) -> str:
        if self._opened_ms is None:
            return "closed"
        return "half_open" if self._clock.now_ms() - self._opened_ms >= self._cooldown_ms else "open"
