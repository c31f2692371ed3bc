"""Requests take turns at a model of this process, and share its calls."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ragtune.canonical.permit import Permit, current
from ragtune.core.arguments import check_count
from ragtune.core.batches.runner import Pace
from ragtune.core.drivers import Scored, score_together
from ragtune.core.errors import InputError, NotAskedError
from ragtune.core.interfaces import BaseReranker
from ragtune.core.plain import describe
from ragtune.core.pool.items import PoolItem, RerankBatch
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import CostObject
from ragtune.rerankers._wrapped import WrappedReranker

_TURN = 8  # documents that a batch may put into a call before the other batches that wait have put in theirs
_HURRY_MS = 10_000.0  # batches that have more time than this take turns
_CALL_MS, _BACKGROUND_CALL_MS = 250.0, 50.0  # that a call may take, since whoever comes next waits for its end


@dataclass(eq=False)
class _Waiting:
    """A batch on its way: the documents that are not scored yet, and what became of the others."""

    batch: RerankBatch
    permit: Permit
    rest: deque[PoolItem]
    since: float = field(default_factory=time.monotonic)
    scores: dict[str, float] = field(default_factory=dict)
    error: Exception | None = None
    own_s: float = 0.0
    calls: int = 0
    done: threading.Event = field(default_factory=threading.Event)

    @property
    def left_ms(self) -> float:
        return self.batch.context.time_left_ms

    def take(self, most: int) -> RerankBatch:
        items = [self.rest.popleft() for _ in range(min(most, len(self.rest)))]
        return self.batch._replace(items=items)

    def add(self, outcome: Scored) -> None:
        """What became of a part of the documents; bad input is told of at once."""
        if not isinstance(outcome, Exception):
            self.scores.update(outcome)
            return
        self.error = self.error or outcome
        if isinstance(outcome, InputError):
            self.scores.clear()
            self.rest.clear()

    def finish(self, why_not: Exception | None = None) -> None:
        """Report the time that it waited, and that it is one call however many parts it had; then wake its request."""
        self.error = self.error or why_not
        meter = self.batch.context.meter
        waited_ms = 1000.0 * max(0.0, time.monotonic() - self.since - self.own_s)
        meter.wait(waited_ms)
        self.permit.queued_ms += waited_ms
        if self.calls > 1:
            meter.charged, meter.actual = (meter.charged and _one_call(meter.charged)), _one_call(meter.actual)
        self.done.set()


class SharedCalls(WrappedReranker):
    """Lets the batches of requests take turns at another reranker, several of them in one call of one thread.

    A call has up to 8 documents of each batch, the earliest deadline first and in turn where there is time, until it is
    full or should take a quarter of a second; batches that compare documents are not cut. Between calls, a batch ends
    whose client is gone or whose time is up, with the scores so far. One that comes too late is refused at once.
    """

    def __init__(
        self,
        inner: BaseReranker,
        docs: int = 128,
        waiting: int = 1024,
        observe: Callable[[int], None] = lambda batches: None,
    ) -> None:
        super().__init__(inner)
        self._docs = check_count("docs of a call", docs, low=1)
        self._most_waiting = check_count("waiting batches", waiting, low=1)
        self._observe = observe
        self._changed = threading.Condition()
        self._queue: deque[_Waiting] = deque()
        self._at_work: set[_Waiting] = set()
        self._open_requests = 0
        self._pace = Pace()
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="ragtune-model", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End what waits at once, and the thread with its call; closing twice is harmless."""
        self.stop()
        self._thread.join()

    def stop(self) -> None:
        """End what waits at once, and take nothing more; a call that is under way is the last one."""
        with self._changed:
            self._is_closed = True
            for waiting in [each for each in self._queue if each not in self._at_work]:
                self._end(waiting, "the server is being closed")
            self._changed.notify_all()

    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        (outcome,) = self.rerank_many([RerankBatch(items, context, strategy)])
        if isinstance(outcome, Exception):
            raise outcome
        return dict(outcome)

    def rerank_many(self, batches: Sequence[RerankBatch]) -> list[Scored]:
        """What :meth:`rerank` says of each batch; all of them wait at the same time."""
        return [self._outcome(each) for each in [self._put(batch) for batch in batches]]

    def _put(self, batch: RerankBatch) -> _Waiting:
        waiting = _Waiting(batch, current(), deque(batch.items))
        with self._changed:
            if self._is_closed:
                waiting.finish(NotAskedError("the server is being closed"))
            elif not batch.items:
                waiting.finish()
            elif len(self._queue) - len(self._at_work) >= self._most_waiting:
                waiting.finish(NotAskedError(f"{self._most_waiting} batches wait for the model already"))
            elif self._is_too_late(waiting):
                waiting.finish(NotAskedError("the model works for other requests until the request's time is over"))
            else:
                self._queue.append(waiting)
                self._changed.notify_all()
        return waiting

    def _outcome(self, waiting: _Waiting) -> Scored:
        left_s = waiting.left_ms / 1000.0
        if not waiting.done.wait(left_s if left_s < threading.TIMEOUT_MAX else None):
            with self._changed:
                if waiting in self._queue and waiting not in self._at_work:
                    self._end(waiting, "the request's time was up before the model was free")
            waiting.done.wait()
        if waiting.scores or waiting.error is None:
            return waiting.scores
        return waiting.error

    def count(self, change: int) -> None:
        """Count the requests under way: while there is one, nothing of the background is scored."""
        with self._changed:
            self._open_requests += change
            self._changed.notify_all()

    def _end(self, waiting: _Waiting, why_not: str) -> None:
        self._queue.remove(waiting)
        waiting.finish(NotAskedError(why_not))

    def _work(self) -> None:
        while call := self._next_call():
            self._score(call)

    def _next_call(self) -> dict[_Waiting, RerankBatch]:
        with self._changed:
            while not self._is_closed:
                self._drop_ended()
                if self._admitted():
                    call = self._dealt()
                    self._at_work = set(call)
                    return call
                self._changed.wait()
            return {}

    def _drop_ended(self) -> None:
        for waiting in list(self._queue):
            if waiting.permit.is_withdrawn:
                self._end(waiting, "the client no longer waits for the answer")
            elif waiting.left_ms <= 0.0:
                self._end(waiting, "the request's time was up before the model was free")
            elif not self._is_in_time(self._part(waiting), [waiting]):
                self._pace.forget_slowest()  # lest one slow call forbids all that come
                self._end(waiting, "the request's time would be up before the model's answer")

    def _is_too_late(self, waiting: _Waiting) -> bool:
        """Whether batches with earlier deadlines should keep the model busy until this one's time is over."""
        urgency = self._urgency(waiting)
        ahead = sum(len(other.rest) for other in self._admitted() if self._urgency(other) <= min(urgency, _HURRY_MS))
        return ahead > 0 and not self._is_in_time(ahead + self._part(waiting), [waiting])

    def _admitted(self) -> list[_Waiting]:
        """The batches that wait, those in a hurry by deadline; of the background only while no request is under way."""
        clients = [waiting for waiting in self._queue if not waiting.permit.is_background]
        found = clients or ([] if self._open_requests else self._queue)
        return sorted(found, key=lambda waiting: min(_HURRY_MS, self._urgency(waiting)))

    def _urgency(self, waiting: _Waiting) -> float:
        """Milliseconds that are left to it; more where it has had its share of the model, for others to have theirs."""
        return waiting.left_ms + waiting.permit.served_ms * max(0, self._open_requests - 1)

    def _dealt(self) -> dict[_Waiting, RerankBatch]:
        """A turn of each batch in order, and again, until the call is full. Who had a turn goes behind the others."""
        order = self._admitted()
        room = self._room(_BACKGROUND_CALL_MS if order[0].permit.is_background else _CALL_MS)
        counts: dict[_Waiting, int] = {}
        while room > 0 and (turns := [w for w in order if counts.get(w, 0) < len(w.rest)]):
            for waiting in turns:
                part = self._part(waiting, counts.get(waiting, 0))
                part = part if self.inner.facts.compares else min(part, room)
                docs = sum(counts.values()) + part
                if counts and (part > room or not self._is_in_time(docs, [*counts, waiting])):
                    room = 0
                    break
                counts[waiting] = counts.get(waiting, 0) + part
                room -= part
                if room <= 0:
                    break
        call = {waiting: waiting.take(count) for waiting, count in counts.items()}
        self._queue = deque([*(w for w in self._queue if w not in call), *call])
        return call

    def _part(self, waiting: _Waiting, taken: int = 0) -> int:
        docs = len(waiting.rest) - taken
        if self.inner.facts.compares:
            return docs
        docs = min(_TURN, self._docs, docs)
        while docs > 1 and not self._is_in_time(docs, [waiting]):
            docs //= 2
        return docs

    def _room(self, limit_ms: float) -> int:
        docs = self._docs if len(self._pace) else min(self._docs, _TURN)
        while docs > _TURN and (self._pace.expect(docs) or 0.0) > limit_ms:
            docs = max(_TURN, docs // 2)
        return docs

    def _is_in_time(self, docs: int, sharing: Sequence[_Waiting]) -> bool:
        return (self._pace.expect(docs) or 0.0) <= min(waiting.left_ms for waiting in sharing)

    def _score(self, call: dict[_Waiting, RerankBatch]) -> None:
        batches = list(call.values())
        docs, begun = sum(len(batch.items) for batch in batches), time.monotonic()
        try:
            outcomes = self._outcomes(batches)
        except BaseException as error:  # as a panic in Rust is; with this thread all requests to come would hang
            outcomes = [RuntimeError(f"the model panicked: {describe(error)}") for _ in batches]
        took_s = time.monotonic() - begun
        self._observe(len(batches))
        with self._changed:
            self._pace.observe(docs, 1000.0 * took_s)
            self._at_work = set()
            for (waiting, batch), outcome in zip(call.items(), outcomes, strict=True):
                own_s = took_s * len(batch.items) / docs
                waiting.own_s += own_s
                waiting.permit.served_ms += 1000.0 * own_s
                waiting.calls += 1
                waiting.add(outcome)
                if not waiting.rest:
                    self._queue.remove(waiting)
                    waiting.finish()
                elif self._is_closed:
                    self._end(waiting, "the server is being closed")

    def _outcomes(self, batches: Sequence[RerankBatch]) -> list[Scored]:
        try:
            return score_together(batches, self.inner)
        except Exception:  # bad input of one of them; each is told its own
            return [outcome for batch in batches for outcome in _alone(batch, self.inner)]


def _alone(batch: RerankBatch, inner: BaseReranker) -> list[Scored]:
    try:
        return score_together([batch], inner)
    except Exception as error:
        return [error]


def _one_call(cost: CostObject) -> CostObject:
    return cost.model_copy(update={"calls": min(1, cost.calls)})
