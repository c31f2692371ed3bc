"""Places for work that has deadlines: the earliest deadline comes first, and what comes too late is refused at once."""

from __future__ import annotations

import math
import threading
import time
from bisect import insort
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

_NEW = 0.1  # weight of the latest hold in the mean
_IN_A_ROW, _WARY_S = 3, 2.0  # work given up makes as short a time too short for two seconds; then one tries it


@dataclass(order=True)
class _Wait:
    due: float
    number: int
    woken: threading.Event = field(compare=False, default_factory=threading.Event)
    has_place: bool = field(compare=False, default=False)
    is_cancelled: bool = field(compare=False, default=False)

    def cancel(self) -> None:
        self.is_cancelled = True
        self.woken.set()


class Places:
    """``count`` places, given by deadline; thread-safe. Times are those of :func:`time.monotonic`, in seconds."""

    def __init__(self, count: int) -> None:
        self._count = self._free = count
        self._lock = threading.Lock()
        self._waiting: list[_Wait] = []
        self._number = 0
        self._mean_s = 0.0
        self._given_up = 0
        self._too_short_s = self._wary_until = 0.0
        self._opens = 0.0

    def take(
        self,
        due: float,
        until: float | None = None,
        interruptible: Callable[[Callable[[], None]], AbstractContextManager[None]] = lambda _: nullcontext(),
    ) -> bool:
        """Whether the caller has a place now, which it must :meth:`leave`.

        Args:
            due: the place in the queue: the earliest comes first.
            until: when the work must end; ``due`` if None. Work is refused at once if it should get its place later, or
                if work with as much time has been given up three times in a row, lately.
            interruptible: gets a function that ends the wait, and returns a context for the wait.
        """
        until = due if until is None else until
        with self._lock:
            self._number += 1
            wait = _Wait(due, self._number)
            now = time.monotonic()
            if now < self._wary_until:
                until -= self._too_short_s
            elif self._given_up >= _IN_A_ROW and until - now <= self._too_short_s:
                self._wary_until = now + _WARY_S
            if self._expected(due) >= until:
                return False
            insort(self._waiting, wait)
            self._admit()
        try:
            with interruptible(wait.cancel):
                self._await(wait, until)
        except BaseException:
            if not self._withdraw(wait):
                self.leave()
            raise
        return not self._withdraw(wait)

    def leave(self, held_s: float | None = None, *, gave_up: bool = False) -> None:
        """Give the place back; ``held_s``, the seconds that it was held, is what later waits are expected by."""
        with self._lock:
            self._free += 1
            if gave_up:
                self._given_up += 1
                self._too_short_s = max(self._too_short_s, held_s or 0.0)
                if self._given_up >= _IN_A_ROW:
                    self._wary_until = time.monotonic() + _WARY_S
            elif held_s is not None:
                self._too_short_s = self._wary_until = 0.0
                self._given_up = 0
            if held_s is not None:
                self._mean_s += (held_s - self._mean_s) * (_NEW if self._mean_s else 1.0)
            self._admit()

    def pause(self, seconds: float) -> None:
        """Give no place for so long, as a service that is asked too often wants it."""
        with self._lock:
            self._opens = max(self._opens, time.monotonic() + seconds)
            for wait in self._waiting:
                wait.woken.set()

    def refuse(self) -> None:
        """Give no place to the work that waits now."""
        with self._lock:
            for wait in self._waiting:
                wait.cancel()

    def resume(self) -> None:
        """End a pause."""
        with self._lock:
            self._opens = 0.0
            self._admit()

    def _withdraw(self, wait: _Wait) -> bool:
        """Whether work without a place was taken out of the queue."""
        with self._lock:
            if not wait.has_place:
                self._waiting.remove(wait)
            return not wait.has_place

    def _expected(self, due: float) -> float:
        """When a place should be free for work that is due then."""
        begins = max(time.monotonic(), self._opens)
        if self._free:
            return begins
        ahead = sum(wait.due <= due for wait in self._waiting)
        return begins + self._mean_s * (ahead + 0.5) / self._count

    def _admit(self) -> None:
        while self._free and self._waiting and time.monotonic() >= self._opens:
            first = self._waiting.pop(0)
            self._free -= 1
            first.has_place = True
            first.woken.set()

    def _await(self, wait: _Wait, until: float) -> None:
        while not (wait.has_place or wait.is_cancelled):
            now, opens = time.monotonic(), self._opens
            if now >= until or opens > until:
                return
            left_s = min(until, opens if opens > now else math.inf) - now
            wait.woken.wait(min(left_s, threading.TIMEOUT_MAX))
            with self._lock:
                self._admit()
                if not (wait.has_place or wait.is_cancelled):
                    wait.woken.clear()
