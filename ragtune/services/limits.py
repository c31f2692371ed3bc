"""What a server gives a request: bytes, seconds, and a place among those that are served at once."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from ragtune.canonical.permit import CancelledWorkError, Permit
from ragtune.canonical.service import RagService
from ragtune.core.arguments import check_count, check_number
from ragtune.services.errors import AdapterError
from ragtune.services.operations import Operation

T = TypeVar("T")

_CHECKS = 2  # threads that only ask the database whether it is there: requests cannot hold them up
_LARGE = 8 * 2**10  # bytes of a request that has room for many texts


@dataclass(frozen=True)
class ServerLimits:
    """``timeout_s`` each to send and to serve a request; ``threads`` each for queries, writes and large requests."""

    body_bytes: int = 16 * 2**20
    timeout_s: float = 30.0
    in_flight: int = 256
    threads: int = 8

    def __post_init__(self) -> None:
        check_number("timeout_s", self.timeout_s, low=1e-9)
        for name in ("body_bytes", "in_flight", "threads"):
            check_count(name, getattr(self, name), low=1)

    @property
    def connections(self) -> int:
        return 3 * self.threads + _CHECKS


class Lane:
    """``threads`` threads for a kind of requests, and the requests that wait for one of them."""

    def __init__(self, kind: str, threads: int) -> None:
        self._kind = kind
        self._size = threads
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="ragtune")
        self._running: set[Permit] = set()

    def submit(self, permit: Permit, work: Callable[[], T]) -> Future[T]:
        return self._threads.submit(self._run, permit, work)

    def check(self) -> None:
        """Raise an AdapterError if each thread is held by work that was cancelled and does not end."""
        held = sum(permit.is_withdrawn for permit in list(self._running))
        if held >= self._size:
            detail = f"All {held} threads for {self._kind} are held by requests that took too long and do not end."
            raise AdapterError("hanging", detail)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _run(self, permit: Permit, work: Callable[[], T]) -> T:
        self._running.add(permit)
        try:
            with permit.used():
                permit.check()
                return work()
        finally:
            self._running.remove(permit)


class WriteOrder:
    """The writes that have arrived and have not ended; those of the same documents wait for each other."""

    def __init__(self) -> None:
        self._turns: list[tuple[str, frozenset[str] | None, Future[None]]] = []

    @contextmanager
    def turn(self, collection: str, documents: frozenset[str] | None) -> Iterator[list[Future[None]]]:
        """Within a write, to documents or a whole collection: the ends of the earlier writes that it must wait for."""
        own = collection, documents, Future[None]()
        before = [
            end
            for other, theirs, end in self._turns
            if other == collection and (documents is None or theirs is None or not documents.isdisjoint(theirs))
        ]
        self._turns.append(own)  # all in the thread of the event loop
        try:
            yield before
        finally:
            self._turns.remove(own)
            own[2].set_result(None)


class Runner:
    """Runs operations in threads of their kind, for a limited time; writes of the same documents in order of arrival.

    Work that takes too long is cancelled, and its transaction is undone.
    """

    def __init__(self, service: RagService, limits: ServerLimits) -> None:
        self.service = service
        self._timeout_s = limits.timeout_s
        self._queries, self._writes, self._large = (
            Lane(kind, limits.threads) for kind in ("queries", "writes", "large requests")
        )
        self._reading = Lane("reading writes", 1)  # one thread, so that writes keep their order
        self._order = WriteOrder()
        self._checks = ThreadPoolExecutor(_CHECKS, thread_name_prefix="ragtune-check")

    async def run(self, operation: Operation[Any], data: bytes) -> bytes:
        until = time.monotonic() + self._timeout_s
        is_large = len(data) > _LARGE
        if operation.effect == "reads":
            lane = self._large if is_large else self._queries
            return await self._work(lane, until, lambda: operation.answer(self.service, operation.decode(data)))
        request = await self._work(self._reading, until, lambda: operation.decode(data))
        documents = None if operation.documents is None else frozenset(operation.documents(request))
        with self._order.turn(request.collection, documents) as before:
            if not await _end(map(asyncio.wrap_future, before), until):
                raise self._late("It waited for earlier writes of the same documents. Nothing was written.")
            lane = self._large if is_large else self._writes
            return await self._work(lane, until, lambda: operation.answer(self.service, request))

    async def rerank(self, work: Callable[[], bytes], receive: Callable[[], Awaitable[Any]], permit: Permit) -> bytes:
        """The result of ``work`` in a thread of its own, which asks no model any more once the client is gone."""

        def permitted() -> bytes:
            with permit.used():
                return work()

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            _interrupt(permit)

        watching = asyncio.ensure_future(watch())
        result = asyncio.wrap_future(in_own_thread(permitted, "ragtune-rerank"))
        try:
            return await self._within(result)
        except CancelledWorkError:  # the client is gone, and nobody reads the answer
            return b""
        finally:
            watching.cancel()
            if result.cancelled():
                _interrupt(permit)

    def check_threads(self) -> None:
        for lane in (self._queries, self._writes, self._large):
            lane.check()

    async def check(self) -> None:
        self.check_threads()
        await self._within(asyncio.get_running_loop().run_in_executor(self._checks, self.service.check))

    async def _work(self, lane: Lane, until: float, do: Callable[[], T]) -> T:
        permit = Permit()
        work = lane.submit(permit, do)
        result = asyncio.wrap_future(work)
        try:
            if await _end([result], until):
                return result.result()
            if not permit.cancel():  # its commit has begun, so there will soon be a result
                if await _end([result], until + self._timeout_s):
                    return result.result()
                raise self._late("A commit does not end. Read the documents to learn whether they were written.")
            raise self._late("It never got a thread." if work.cancel() else "Nothing was written.")
        finally:
            if not result.done():
                result.cancel()
                _interrupt(permit)

    async def _within(self, work: asyncio.Future[T]) -> T:
        try:
            return await asyncio.wait_for(work, self._timeout_s)
        except TimeoutError:
            raise self._late() from None

    def _late(self, *more: str) -> AdapterError:
        return AdapterError("timeout", " ".join((f"It took more than {self._timeout_s:g} s.", *more)))

    def close(self) -> None:
        for lane in (self._queries, self._writes, self._large, self._reading):
            lane.close()
        self._checks.shutdown(wait=False, cancel_futures=True)


def _interrupt(permit: Permit) -> None:
    """End the work, in a thread since that may take seconds."""
    permit.withdraw()
    threading.Thread(target=permit.interrupt, name="ragtune-interrupt", daemon=True).start()


async def _end(work: Iterable[asyncio.Future[Any]], until: float) -> bool:
    waiting = list(work)
    if not waiting:
        return True
    return not (await asyncio.wait(waiting, timeout=max(0.0, until - time.monotonic())))[1]


def in_own_thread(work: Callable[[], T], name: str) -> Future[T]:
    """The result of work in a daemon thread, which the end of the process does not wait for."""
    future: Future[T] = Future()
    if not _idle.acquire(blocking=False):
        threading.Thread(target=_work_on, daemon=True).start()
    _waiting.put((work, future, name))
    return future


_waiting = SimpleQueue[tuple[Callable[[], Any], Future[Any], str]]()
_idle = threading.Semaphore(0)  # threads that wait for work: to start one takes longer than to wake it
os.register_at_fork(after_in_child=lambda: all(iter(partial(_idle.acquire, blocking=False), False)))  # it has none


def _work_on() -> None:
    while True:
        work, future, threading.current_thread().name = _waiting.get()
        try:
            tell = partial(future.set_result, Context().run(work))  # a new one, as in a new thread
        except BaseException as error:
            tell = partial(future.set_exception, error)
        with suppress(InvalidStateError):  # nobody waits any more
            tell()
        del work, future, tell
        _idle.release()
