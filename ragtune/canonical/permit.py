"""Leave to go on with a request, and to commit what it writes: the side that waits may take it back at any time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ragtune.core.errors import RagtuneError


class CancelledWorkError(RagtuneError):
    """Work that nobody waits for any more; it wrote nothing."""


class Permit:
    """What the work for one request may do. The thread that works finds it by itself; other work may do everything.

    Cancelled work never commits: either :meth:`cancel` comes first, or the commit, and both sides know which.
    """

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._lock = threading.Lock()
        self._is_withdrawn = False
        self._is_committing = False
        self._interrupt: Callable[[], None] | None = None

    @property
    def waited_ms(self) -> float:
        """Milliseconds since the request arrived, which is when its permit was given."""
        return 1000.0 * (time.monotonic() - self._since)

    @property
    def is_withdrawn(self) -> bool:
        """Whether the work must end."""
        return self._is_withdrawn

    def cancel(self) -> bool:
        """Take the permit back unless a commit has begun, and return whether that was so."""
        with self._lock:
            self._is_withdrawn = self._is_withdrawn or not self._is_committing
            return self._is_withdrawn

    def withdraw(self) -> None:
        """Take the permit back. A commit that has begun goes on; no further one begins."""
        with self._lock:
            self._is_withdrawn = True

    def interrupt(self) -> None:
        """End a call that cancelled work waits for; may block for some seconds."""
        with self._lock:
            if self._interrupt is not None and self._is_withdrawn and not self._is_committing:
                self._interrupt()

    def check(self) -> None:
        """Go on.

        Raises:
            CancelledWorkError: if the permit was taken back.
        """
        if self._is_withdrawn:
            raise CancelledWorkError("nobody waits for the result any more")

    def commit(self) -> None:
        """Begin a commit; the last step of a transaction.

        Raises:
            CancelledWorkError: if the permit was taken back.
        """
        with self._lock:
            self.check()
            self._is_committing = True

    @contextmanager
    def interruptible(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """While the block lasts, ``interrupt()`` ends the call that it waits for."""
        with self._lock:
            self.check()
            self._interrupt = interrupt
        try:
            yield
        finally:
            with self._lock:  # an interruption under way would hit whoever uses the connection next
                self._interrupt = None

    @contextmanager
    def used(self) -> Iterator[None]:
        """This thread works under the permit while the block lasts."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)


_CURRENT: ContextVar[Permit | None] = ContextVar("permit", default=None)


def current() -> Permit:
    """The permit of this thread's work; a new one where nobody gave one."""
    return _CURRENT.get() or Permit()
