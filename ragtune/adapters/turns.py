"""Which request a process works on next, and when each must have its scores, so that answers come in time."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right, insort
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ragtune.canonical.permit import current

_ANSWER_S = 0.02
"""Seconds that one answer takes: on two cores, a request costs .01 s of processor time."""

_SHARE = 0.5
"""Of a request's time that is left to its calls, however many answers fall due at the same time."""

_UNHURRIED_S = 30.0
"""Seconds after its arrival that a request without a limit has its place in the order."""


@dataclass(order=True)
class _Work:
    """A request under way, in the order of its end."""

    end: float
    number: int
    turn: threading.Event = field(compare=False, default_factory=threading.Event)


class Turns:
    """Has requests worked on one at a time, the one that ends first before the others, and gives each its own end.

    Threads of Python run one at a time anyway. Without an order, fifty of them that fall due together all end late.
    A turn lasts from one call of the model to the next. Safe to use from several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: list[float] = []
        self._waiting: list[_Work] = []
        self._is_taken = False
        self._count = 0
        self._own = threading.local()

    @contextmanager
    def within(self, limit_ms: float | None) -> Iterator[float | None]:
        """Wait for a turn, and keep it while the block lasts.

        Args:
            limit_ms: milliseconds that the request may take, counted from its arrival; None for no limit.

        Yields:
            The milliseconds from now until its calls must end, >= 0; None for no limit.
        """
        arrived = time.monotonic() - current().waited_ms / 1000.0
        limit_s = _UNHURRIED_S if limit_ms is None else limit_ms / 1000.0
        with self._lock:
            end = arrived + limit_s
            if limit_ms is not None:
                end = self._free(end - min(_ANSWER_S, 0.1 * limit_s), arrived + _SHARE * limit_s)
                insort(self._ends, end)
            self._count += 1
            self._own.work = work = _Work(end, self._count)
        try:
            with self._turn(work):
                yield None if limit_ms is None else 1000.0 * max(0.0, end - time.monotonic())
        finally:
            self._own.work = None
            if limit_ms is not None:
                with self._lock:
                    self._ends.remove(end)

    @contextmanager
    def away(self) -> Iterator[None]:
        """Leave the turn of this thread, if it has one, to others while the block lasts, which waits for something."""
        work: _Work | None = getattr(self._own, "work", None)
        if work is None:
            yield
            return
        self._leave()
        try:
            yield
        finally:
            self._take(work)

    @contextmanager
    def _turn(self, work: _Work) -> Iterator[None]:
        self._take(work)
        try:
            yield
        finally:
            self._leave()

    def _take(self, work: _Work) -> None:
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                return
            work.turn.clear()
            insort(self._waiting, work)
        work.turn.wait()

    def _leave(self) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.pop(0).turn.set()
            else:
                self._is_taken = False

    def _free(self, latest: float, earliest: float) -> float:
        """The latest end that is free; ``earliest`` where there is none after it. The lock is held."""
        end = latest
        for later in reversed(self._ends[: bisect_right(self._ends, latest + _ANSWER_S)]):
            if later + _ANSWER_S <= end or end <= earliest:
                break
            end = max(earliest, min(end, later - _ANSWER_S))
        return end
