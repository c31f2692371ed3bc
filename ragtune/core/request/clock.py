"""Clocks, from which latency budgets and trace timestamps are read (rule C1)."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager


class Clock(ABC):
    """A monotonic source of milliseconds from an arbitrary zero; ``is_real`` where work takes time on it."""

    is_real: bool

    @abstractmethod
    def now_ms(self) -> float:
        """Milliseconds since an arbitrary zero; never decreases."""

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock during work that is no part of a request, e.g. loading a model; a simulated clock stands."""
        yield

    @abstractmethod
    def advance(self, ms: float) -> None:
        """Account for ``ms`` (>= 0) of work whose time was recorded and has not passed while it was looked up."""


class MonotonicClock(Clock):
    """The machine's monotonic clock, for live rerankers; time that was only recorded is added to it."""

    is_real = True

    def __init__(self) -> None:
        self._added_ms = 0.0
        self._paused_at: float | None = None

    def now_ms(self) -> float:
        if self._paused_at is not None:
            return self._paused_at
        return time.perf_counter() * 1000.0 + self._added_ms

    @contextmanager
    def paused(self) -> Iterator[None]:
        if self._paused_at is not None:
            yield
            return
        stopped_at = self._paused_at = self.now_ms()
        try:
            yield
        finally:
            self._paused_at = None
            self._added_ms -= self.now_ms() - stopped_at

    def advance(self, ms: float) -> None:
        self._added_ms += ms


class VirtualClock(Clock):
    """Moves only by recorded time, so that replayed latency budgets are exact and repeatable.

    It is rounded to 1e-9 ms: three steps of 0.1 ms make 0.3 ms, not the 0.30000000000000004 that a limit would refuse.

    Examples:
        >>> from ragtune.core.request.clock import VirtualClock
        >>> clock = VirtualClock()
        >>> clock.advance(40.0)
        >>> clock.now_ms()
        40.0
    """

    is_real = False

    def __init__(self) -> None:
        self._now_ms = 0.0

    def now_ms(self) -> float:
        return self._now_ms

    def advance(self, ms: float) -> None:
        self._now_ms = round(self._now_ms + ms, 9)
