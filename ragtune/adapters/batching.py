"""Requests that come at the same time share the calls of the model."""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from ragtune.core.arguments import check_count, check_number
from ragtune.core.batches.pace import Pace
from ragtune.core.drivers import Outcome, score_together
from ragtune.core.errors import NotAskedError
from ragtune.core.interfaces import BaseReranker
from ragtune.core.pool.batch import RerankBatch
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.bills import describe
from ragtune.core.request.context import RAGtuneContext
from ragtune.rerankers._wrapped import WrappedReranker

Given = TypeVar("Given")
Made = TypeVar("Made")


class _Waiting(NamedTuple):
    """A batch, where its scores go, and since when it waits, in seconds of the monotonic clock."""

    batch: RerankBatch
    scores: Future[Mapping[str, float]]
    since: float

    @property
    def left_ms(self) -> float:
        """The time that its request has left."""
        return self.batch.context.time_left_ms


class SharedCalls(WrappedReranker):
    """Puts the batches of requests that wait at the same time into one call of another reranker.

    What waits while a call is under way goes into the next one. A call waits for others only as long as there are
    requests whose batch may still come, see :meth:`request`: a lone request never does. A batch gets the scores that it
    would get alone, as ``rerank_many`` promises, and its own error.

    A call grows only as far as it should end within the time of everyone in it, as the calls before it tell, and a
    batch that no call can serve in time never gets to the model. What a batch has waited is reported, so that a rush
    teaches no request that the model is slow.

    Args:
        inner: the reranker; one thread asks it, whatever thread a batch comes from.
        patience_ms: milliseconds that a call waits for further batches, >= 0.
        docs: documents of a call, >= 1; a batch is never cut, so that a larger one is a call of its own.
        waiting: batches that may wait, >= 1; a further one fails.
        observe: told the batches and the documents of every call.
    """

    def __init__(
        self,
        inner: BaseReranker,
        patience_ms: float = 3.0,
        docs: int = 128,
        waiting: int = 1024,
        observe: Callable[[int, int], None] | None = None,
    ) -> None:
        super().__init__(inner)
        self._patience_s = check_number("patience_ms", patience_ms, low=0.0) / 1000.0
        self._docs = check_count("docs of a call", docs, low=1)
        self._queue: queue.Queue[_Waiting | None] = queue.Queue(check_count("waiting batches", waiting, low=1))
        self._observe = observe or (lambda batches, docs: None)
        self._lock = threading.Lock()
        self._open_requests = 0
        self._kept: _Waiting | None = None
        self._pace = Pace()
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="ragtune-model", daemon=True)
        self._thread.start()

    @contextmanager
    def request(self) -> Iterator[None]:
        """While it lasts, a batch of one more request may come."""
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    def close(self) -> None:
        """End the thread once its call is over; what waits then fails. Closing twice is harmless."""
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
        if not was_closed:
            self._queue.put(None)
        self._thread.join()

    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        """The scores of the inner reranker.

        Raises:
            NotAskedError: if too many batches wait, or the request's time is up before a call begins.
        """
        return dict(self._scores(self._queued(RerankBatch(items, context, strategy))))

    def rerank_many(self, batches: Sequence[RerankBatch]) -> list[Outcome]:
        """What :meth:`rerank` says of each batch; all of them wait at the same time."""
        waiting = [_outcome_of(self._queued, batch) for batch in batches]
        return [each if isinstance(each, Exception) else _outcome_of(self._scores, each) for each in waiting]

    def _queued(self, batch: RerankBatch) -> _Waiting:
        """The batch in the queue; one without documents has its scores already.

        Raises:
            NotAskedError: if too many batches wait.
        """
        waiting = _Waiting(batch, Future(), time.monotonic())
        if not batch.items:
            waiting.scores.set_result({})
            return waiting
        with self._lock:
            if self._is_closed:
                raise NotAskedError("the server is being closed")
            try:
                self._queue.put_nowait(waiting)
            except queue.Full:
                raise NotAskedError(f"{self._queue.maxsize} batches wait for the model already") from None
        return waiting

    def _scores(self, waiting: _Waiting) -> Mapping[str, float]:
        """The scores of a batch, once they are there.

        Raises:
            NotAskedError: if the request's time is up before a call begins.
        """
        left_s = waiting.left_ms / 1000.0
        try:
            return waiting.scores.result(left_s if left_s < threading.TIMEOUT_MAX else None)
        except TimeoutError:
            if not waiting.scores.cancel():  # its call has begun, or the model's own answer was that it took too long
                return waiting.scores.result()
            raise NotAskedError("the request's time was up before the model was free") from None

    def _count(self, change: int) -> None:
        with self._lock:
            self._open_requests += change

    def _work(self) -> None:
        while (first := self._next(None)) is not None:
            if self._is_in_time(len(first.batch.items), first.left_ms):
                self._score([each for each in self._gather(first) if each.scores.set_running_or_notify_cancel()])
            elif first.scores.set_running_or_notify_cancel():
                self._pace.forget_slowest()  # lest one slow call forbids all that come
                first.scores.set_exception(NotAskedError("the request's time would be up before the model's answer"))
        while not self._queue.empty():
            if (left := self._queue.get_nowait()) is not None and left.scores.set_running_or_notify_cancel():
                left.scores.set_exception(NotAskedError("the server is being closed"))

    def _next(self, wait_s: float | None) -> _Waiting | None:
        """The next batch, or None once there will be no more.

        Raises:
            queue.Empty: if none came in time.
        """
        if self._kept is not None:
            kept, self._kept = self._kept, None
            return kept
        return self._queue.get(timeout=wait_s) if wait_s is None or wait_s > 0 else self._queue.get_nowait()

    def _gather(self, first: _Waiting) -> list[_Waiting]:
        found, docs, left_ms = [first], len(first.batch.items), first.left_ms
        until = time.monotonic() + self._patience_s
        while docs < self._docs:
            others = self._open_requests - len(found)
            try:
                following = self._next(until - time.monotonic() if others > 0 else 0.0)
            except queue.Empty:
                break
            if following is None:
                self._queue.put(None)  # for the loop that this one is part of
                break
            docs += len(following.batch.items)
            left_ms = min(left_ms, following.left_ms)
            if docs > self._docs or not self._is_in_time(docs, left_ms):
                self._kept = following
                break
            found.append(following)
        return found

    def _is_in_time(self, docs: int, left_ms: float) -> bool:
        """Whether a call of so many documents should end in so many milliseconds."""
        return left_ms == math.inf or (self._pace.expect(docs) or 0.0) <= left_ms

    def _score(self, waiting: Sequence[_Waiting]) -> None:
        batches = [each.batch for each in waiting]
        if not batches:
            return
        docs, begun = sum(len(batch.items) for batch in batches), time.monotonic()
        try:
            outcomes = self._outcomes(batches)
        except BaseException as error:  # as a panic in Rust is; with this thread all requests to come would hang
            outcomes = [RuntimeError(f"the model panicked: {describe(error)}") for _ in batches]
        took_s = time.monotonic() - begun
        self._pace.observe(docs, 1000.0 * took_s)
        self._observe(len(batches), docs)
        for each, outcome in zip(waiting, outcomes, strict=True):
            others_s = took_s * (1.0 - len(each.batch.items) / docs)
            each.batch.context.meter.wait(1000.0 * (begun - each.since + others_s))
            if isinstance(outcome, Exception):
                each.scores.set_exception(outcome)
            else:
                each.scores.set_result(outcome)

    def _outcomes(self, batches: Sequence[RerankBatch]) -> list[Outcome]:
        try:
            return score_together(batches, self.inner)
        except Exception:  # bad input of one of them; each is told its own
            return [outcome for batch in batches for outcome in score_together([batch], self.inner)]


def _outcome_of(step: Callable[[Given], Made], given: Given) -> Made | Exception:
    try:
        return step(given)
    except Exception as error:
        return error
