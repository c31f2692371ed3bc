"""Permission to continue a request and to commit its writes. The waiting side may withdraw it at any time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ragtune.core.errors import RagtuneError


class CancelledWorkError(RagtuneError):
    """The work was cancelled and wrote nothing."""


class Permit:
    """Permission for one request's work: either :meth:`cancel` or the commit is first, and both sides know which.

    ``key`` is who asks, ``headers`` are those of the answer, and the work must end if ``is_withdrawn``.
    """

    def __init__(self, is_background: bool = False, key: str = "") -> None:
        self.is_background = is_background
        self.key = key
        self.headers: dict[str, str] = {}
        self.queued_ms = 0.0
        self.served_ms = 0.0
        self._since = time.monotonic()
        self._lock = threading.Lock()
        self.is_withdrawn = False
        self._is_committing = False
        self._interrupt: Callable[[], None] | None = None

    @property
    def waited_ms(self) -> float:
        """Milliseconds since the request arrived, which is when its permit was given."""
        return 1000.0 * (time.monotonic() - self._since)

    def cancel(self) -> bool:
        """Withdraw the permit unless a commit has begun, and return whether it is withdrawn."""
        with self._lock:
            self.is_withdrawn = self.is_withdrawn or not self._is_committing
            return self.is_withdrawn

    def withdraw(self) -> None:
        """Withdraw the permit. A commit that has begun continues; no other one begins."""
        with self._lock:
            self.is_withdrawn = True

    def interrupt(self) -> None:
        """End the call that cancelled work waits for. This may block for some seconds."""
        with self._lock:
            if self._interrupt is not None and self.is_withdrawn and not self._is_committing:
                self._interrupt()

    def check(self) -> None:
        if self.is_withdrawn:
            raise CancelledWorkError("the request was cancelled")

    def commit(self) -> None:
        """Begin a commit, as the last step of a transaction."""
        with self._lock:
            self.check()
            self._is_committing = True

    @contextmanager
    def interruptible(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """Let ``interrupt()`` end the call that the block waits for."""
        with self._lock:
            self.check()
            self._interrupt = interrupt
        try:
            yield
        finally:
            with self._lock:  # a running interruption would hit the next user of the connection
                self._interrupt = None

    @contextmanager
    def used(self) -> Iterator[None]:
        """Let this thread work under the permit within the block."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)


_CURRENT: ContextVar[Permit | None] = ContextVar("permit", default=None)


def current() -> Permit:
    """The permit of this thread's work, or a new one."""
    return _CURRENT.get() or Permit()
