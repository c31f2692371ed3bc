"""Threads for requests of a kind, so that no kind waits for another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from ragtune.canonical.permit import Permit
from ragtune.services.errors import AdapterError

T = TypeVar("T")


class Lane:
    """Some threads, and the requests that wait for one of them.

    Args:
        kind: the requests in words.
        threads: requests that are worked on at once.
    """

    def __init__(self, kind: str, threads: int) -> None:
        self._kind = kind
        self._size = threads
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="ragtune")
        self._lock = threading.Lock()
        self._running: set[Permit] = set()

    def submit(self, permit: Permit, work: Callable[[], T]) -> Future[T]:
        """The result of work, which goes on while it has its permit."""
        return self._threads.submit(self._run, permit, work)

    def check(self) -> None:
        """Check that requests can be worked on.

        Raises:
            AdapterError: if each thread is held by work that was cancelled and does not end.
        """
        with self._lock:
            held = sum(permit.is_withdrawn for permit in self._running)
        if held >= self._size:
            detail = f"All {held} threads for {self._kind} are held by requests that took too long and do not end."
            raise AdapterError("hanging", detail)

    def close(self) -> None:
        """Let the threads go as soon as they are done."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _run(self, permit: Permit, work: Callable[[], T]) -> T:
        with self._lock:
            self._running.add(permit)
        try:
            with permit.used():
                permit.check()
                return work()
        finally:
            with self._lock:
                self._running.remove(permit)
