"""Which request a process works on next, and when each must have its scores, so that answers come in time."""

from __future__ import annotations

import logging
import math
import threading
import time
from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, InvalidStateError, wait
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial
from typing import Any

from ragtune.canonical.permit import CancelledWorkError, current
from ragtune.core.errors import InconclusiveError, InputError, LLMError, NotAskedError, RagtuneError, RequestOverError
from ragtune.core.interfaces import BaseReranker
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.request.places import Places
from ragtune.rerankers._wrapped import WrappedReranker
from ragtune.services.limits import in_own_thread

_log = logging.getLogger(__name__)

_ANSWER_S = 0.02  # that one answer takes: on two cores, a request costs .01 s of processor time
_SHARE = 0.5  # of a request's time that is left to its calls, however many answers fall due at the same time
_LAST_CALL_S = 2.0  # that the call under way has after the stop of the server; uvicorn waits longer for requests
_CLOSED = "the call was given up, as the server is being closed"
_LATE_CALL_S = 0.5  # that a call has after its request's time: a call of a local model is not cut


class LateError(RagtuneError):
    """The request's time would be over before the server could work on it."""


class Turns:
    """Has requests worked on one at a time, the earliest limit first, with ends apart: fifty due together end late."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: list[float] = []
        self._turn = Places(1)
        self._own = threading.local()

    @contextmanager
    def within(self, limit_ms: float) -> Iterator[float]:
        """Hold a turn while the block lasts; yields the milliseconds until its calls must end.

        Raises:
            LateError: at once where other requests take the processor for too long.
        """
        arrived = time.monotonic() - current().waited_ms / 1000.0
        limit_s = limit_ms / 1000.0
        last = arrived + limit_s - min(_ANSWER_S, 0.1 * limit_s)
        with self._lock:
            end = self._free(last, arrived + _SHARE * limit_s)
            insort(self._ends, end)
        try:
            self._take(last, last)
            yield 1000.0 * max(0.0, end - time.monotonic())
        finally:
            self._leave()
            with self._lock:
                self._ends.remove(end)

    @contextmanager
    def away(self) -> Iterator[None]:
        """Leave the turn of this thread, if it has one, to others while the block lasts, which waits for something."""
        if (end := self._leave()) is None:
            yield
            return
        try:
            yield
        finally:
            self._take(end, math.inf)

    def _take(self, end: float, last: float) -> None:
        permit = current()
        if not self._turn.take(end, last, permit.interruptible):
            permit.check()
            raise LateError("the server works on other requests, or on this one's texts, until its time is over")
        self._own.turn = end, time.monotonic()
        permit.check()

    def _leave(self) -> float | None:
        """When the request that has had the turn ends; None for a thread without a turn."""
        end, since = getattr(self._own, "turn", None) or (None, 0.0)
        self._own.turn = None
        if end is not None:
            self._turn.leave(time.monotonic() - since)
        return end

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
        self._give_up = getattr(inner, "give_up", None)  # of a reranker that ends its calls by itself
        self._under_way: set[object] = set()

    def stop(self) -> None:
        """Let no further batch through, and give up calls that do not end soon."""
        with suppress(InvalidStateError):  # it was stopped before
            self._stopped.set_result(time.monotonic())
            if (give_up := self._give_up) is not None:
                later = threading.Timer(_LAST_CALL_S, lambda: self._under_way and give_up())
                later.daemon = True
                later.start()

    @property
    def is_stopped(self) -> bool:
        return self._stopped.done()

    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        """The scores of the inner reranker, while somebody waits for them and the server is open."""
        self._require_open()
        try:
            with self._turns.away():
                if self._give_up is None:
                    return self._called(items, context, strategy)
                self._under_way.add(call := object())
                try:
                    return self.inner.rerank(items, context, strategy)
                except LLMError as error:
                    raise (InconclusiveError(_CLOSED) if self.is_stopped else error) from None
                finally:
                    self._under_way.remove(call)
        except (NotAskedError, CancelledWorkError):  # no failure of the model, which would close it for others
            self._require_open()
            raise
        except InputError as error:
            _log.error("the reranker cannot be used: %s", error)
        raise RuntimeError("the reranker cannot be used; the server's log says why")

    def _require_open(self) -> None:
        if self._stopped.done():
            raise RequestOverError("the server is being closed")
        if current().is_withdrawn:
            raise RequestOverError("the client no longer waits for the answer")

    def _called(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        asked = partial(copy_context().run, self.inner.rerank, items, context, strategy)
        call: Future[dict[str, float]] = in_own_thread(asked, threading.current_thread().name)
        either: tuple[Future[Any], ...] = (call, self._stopped)
        left_s = context.time_left_ms / 1000.0 + _LATE_CALL_S
        wait(either, min(left_s, threading.TIMEOUT_MAX), FIRST_COMPLETED)
        if not call.done() and self._stopped.done():
            wait((call,), timeout=self._stopped.result() + _LAST_CALL_S - time.monotonic())
        if not call.done():
            raise InconclusiveError(
                _CLOSED if self.is_stopped else "the call was given up, as the request's time is over"
            )
        return call.result()
