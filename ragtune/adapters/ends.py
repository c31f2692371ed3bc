"""When the work for a request ends, so that its answer is sent within the request's time."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right, insort
from collections.abc import Iterator
from contextlib import contextmanager

from ragtune.canonical.permit import current

_ANSWER_S = 0.02
"""Seconds that one answer takes: on two cores, a request costs .01 s of processor time."""

_SHARE = 0.5
"""Of a request's time that is left to its calls, however many answers fall due at the same time."""


class Ends:
    """Gives the requests under way different ends, since a process makes one answer after the other.

    Without it, fifty requests that arrive together fall due together, and the last answer is half a second late. Safe
    to use from several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: list[float] = []

    @contextmanager
    def within(self, limit_ms: float) -> Iterator[float]:
        """While the block lasts, no other request of this process has an end near this one's.

        Args:
            limit_ms: milliseconds that the request may take, counted from its arrival.

        Yields:
            The milliseconds from now until its calls must end, >= 0.
        """
        waited_s, limit_s = current().waited_ms / 1000.0, limit_ms / 1000.0
        now = time.monotonic()
        arrived = now - waited_s
        end = self._take(arrived + limit_s - min(_ANSWER_S, 0.1 * limit_s), arrived + _SHARE * limit_s)
        try:
            yield 1000.0 * max(0.0, end - now)
        finally:
            with self._lock:
                self._taken.remove(end)

    def _take(self, latest: float, earliest: float) -> float:
        """The latest end that is free; ``earliest`` where there is none after it."""
        with self._lock:
            end = latest
            for later in reversed(self._taken[: bisect_right(self._taken, latest + _ANSWER_S)]):
                if later + _ANSWER_S <= end or end <= earliest:
                    break
                end = max(earliest, min(end, later - _ANSWER_S))
            insort(self._taken, end)
            return end
