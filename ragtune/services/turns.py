"""Which request a process works on next, and when each must have its scores, so that answers come in time."""

from __future__ import annotations

import logging
import threading
import time
from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, InvalidStateError, wait
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ragtune.canonical.permit import current
from ragtune.core.errors import InconclusiveError, InputError, NotAskedError, RequestOverError
from ragtune.core.interfaces import BaseReranker
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import RAGtuneContext
from ragtune.rerankers._wrapped import WrappedReranker
from ragtune.services.limits import in_own_thread

_log = logging.getLogger(__name__)

_ANSWER_S = 0.02  # that one answer takes: on two cores, a request costs .01 s of processor time
_SHARE = 0.5  # of a request's time that is left to its calls, however many answers fall due at the same time
_UNHURRIED_S = 30.0  # after its arrival, a request without a limit has its place in the order
_LAST_CALL_S = 2.0  # that the call under way has after the stop of the server; uvicorn waits longer for requests


@dataclass(order=True)
class _Work:
    """A request under way, in the order of its end."""

    end: float
    number: int
    woken: threading.Event = field(compare=False, default_factory=threading.Event)
    has_turn: bool = field(compare=False, default=False)


class Turns:
    """Has requests worked on one at a time, first the one that ends first: fifty due together would all end late."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: list[float] = []
        self._waiting: list[_Work] = []
        self._is_taken = False
        self._count = 0
        self._own = threading.local()

    @contextmanager
    def within(self, limit_ms: float | None) -> Iterator[float | None]:
        """Hold a turn while the block lasts; yields the milliseconds until its calls must end, None for no limit."""
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
            self._take(work)
            yield None if limit_ms is None else 1000.0 * max(0.0, end - time.monotonic())
        finally:
            self._leave(work)
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
        self._leave(work)
        try:
            yield
        finally:
            self._take(work)

    def _take(self, work: _Work) -> None:
        with self._lock:
            if not self._is_taken:
                self._is_taken = work.has_turn = True
                return
            work.woken.clear()
            insort(self._waiting, work)
        try:
            with current().interruptible(work.woken.set):
                work.woken.wait()
        finally:
            with self._lock:
                if not work.has_turn:
                    self._waiting.remove(work)
        current().check()

    def _leave(self, work: _Work) -> None:
        with self._lock:
            if not work.has_turn:
                return
            work.has_turn = False
            self._is_taken = bool(self._waiting)
            if self._waiting:
                first = self._waiting.pop(0)
                first.has_turn = True
                first.woken.set()

    def _free(self, latest: float, earliest: float) -> float:
        """The latest end that is free; ``earliest`` where there is none after it. The lock is held."""
        end = latest
        for later in reversed(self._ends[: bisect_right(self._ends, latest + _ANSWER_S)]):
            if later + _ANSWER_S <= end or end <= earliest:
                break
            end = max(earliest, min(end, later - _ANSWER_S))
        return end


class ServedReranker(WrappedReranker):
    """Another reranker, asked only while clients wait and the server runs; a call has two seconds to end then."""

    def __init__(self, inner: BaseReranker, turns: Turns) -> None:
        super().__init__(inner)
        self._turns = turns
        self._stopped: Future[float] = Future()

    def stop(self) -> None:
        """Let no further batch through, and give up calls that do not end soon."""
        with suppress(InvalidStateError):  # it was stopped before
            self._stopped.set_result(time.monotonic())

    @property
    def is_stopped(self) -> bool:
        return self._stopped.done()

    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        """The scores of the inner reranker, while somebody waits for them and the server is open."""
        self._require_open()
        try:
            with self._turns.away():
                return self._called(items, context, strategy)
        except NotAskedError:
            self._require_open()
            raise
        except InputError as error:
            _log.error("the reranker cannot be used: %s", error)
        raise RuntimeError("the reranker cannot be used; the server's log says why")

    def _require_open(self) -> None:
        if self._stopped.done():
            raise RequestOverError("the server is being closed")
        if current().is_withdrawn:
            raise RequestOverError("nobody waits for the answer any more")

    def _called(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        asked = partial(copy_context().run, self.inner.rerank, items, context, strategy)
        call: Future[dict[str, float]] = in_own_thread(asked, threading.current_thread().name)
        either: tuple[Future[Any], ...] = (call, self._stopped)
        wait(either, return_when=FIRST_COMPLETED)
        if not call.done():
            wait((call,), timeout=self._stopped.result() + _LAST_CALL_S - time.monotonic())
        if not call.done():
            raise InconclusiveError("the call was given up, as the server is being closed")
        return call.result()
