"""One batch from its price to its scores: what is sent, what comes back, what it costs, and what fails."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from ragtune.core.arrays import FloatArray
from ragtune.core.batches.failures import BatchBook, CircuitBreaker, FailurePolicy, closed_in
from ragtune.core.errors import InconclusiveError, InputError, InvalidScoreError, NotAskedError, RequestOverError
from ragtune.core.interfaces import BaseReranker
from ragtune.core.plain import describe, quoted, words
from ragtune.core.pool.columns import is_calibrated
from ragtune.core.pool.items import ItemState, PoolItem, RerankBatch
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.clock import MonotonicClock
from ragtune.core.request.context import CostMeter, RAGtuneContext
from ragtune.core.types import BatchProposal, CostObject, price_by_count

T = TypeVar("T")

BatchRequests = Generator[RerankBatch, Mapping[str, float], T]
"""Work that yields the batches to score, and receives their scores or the reranker's error."""

_COVERED = 0.9  # share of the batches seen that the margin of a time covers
_KEPT = 64  # batches whose time is remembered: a server's speed changes, so what was long ago does not count


class Pace:
    """Milliseconds of a live batch: a least-squares line in its size, >= 0, and a margin that covers nine of ten."""

    def __init__(self) -> None:
        self._seen: deque[tuple[int, float]] = deque(maxlen=_KEPT)

    def __len__(self) -> int:
        return len(self._seen)

    def observe(self, docs: int, ms: float) -> None:
        self._seen.append((docs, ms))

    def forget_slowest(self) -> None:
        """Leave the slowest batch for its size out: it has let nothing start, so nothing could correct it."""
        if self._seen:
            self._seen.remove(max(self._seen, key=lambda seen: seen[1] / seen[0]))

    def expect(self, docs: int) -> float | None:
        """Milliseconds that a batch of ``docs`` documents should take; None while nothing has been seen."""
        if not self._seen:
            return None
        base, each = _line(*np.array(self._seen, dtype=float).T)
        return base + each * docs


def _line(sizes: FloatArray, times: FloatArray) -> tuple[float, float]:
    """The milliseconds of a batch, with the margin, and those of each document."""
    spread = sizes - sizes.mean()
    each = max(0.0, float(spread @ times / (spread @ spread))) if spread.any() else np.inf
    base = float(times.mean() - each * sizes.mean())
    if base < 0.0:
        base, each = 0.0, float(sizes @ times / (sizes @ sizes))
    later = np.sort(times - (base + each * sizes))
    margin = float(np.interp(_COVERED * (len(later) - 1), np.arange(len(later)), later))  # np.quantile in a tenth
    return base + max(0.0, margin), each


@dataclass
class _Answer:
    """Why documents of a batch have no score, and why the batch as a whole brought none."""

    lost: dict[str, str] = field(default_factory=dict)
    error: Exception | str | None = None


class BatchRunner:
    """Prices batches and requests their scores; it books documents and calls from what is sent."""

    def __init__(self, rerankers: Mapping[str, BaseReranker], policy: FailurePolicy, *, sends_again: bool) -> None:
        self._rerankers = rerankers
        self._policy = policy
        comparing = {strategy for strategy, reranker in rerankers.items() if sends_again or reranker.facts.compares}
        self._puts_back = comparing if policy.keep_unscored else set()
        self.forget_failures()
        self._paces = {strategy: Pace() for strategy in rerankers}
        self._simulates_time = {name: reranker.facts.simulates_time for name, reranker in rerankers.items()}
        self._starved: set[str] = set()

    def forget_failures(self) -> None:
        policy, clock = self._policy, MonotonicClock()
        cooldown_ms = policy.retry_after_s * 1000.0
        self._run = {name: CircuitBreaker(policy.requests_in_a_row, cooldown_ms, clock) for name in self._rerankers}

    @property
    def closed(self) -> dict[str, str]:
        return closed_in(self._run)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_run"}  # it holds locks and a clock

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        self.forget_failures()

    def open_book(self) -> BatchBook:
        return BatchBook(self._run, self._policy)

    def price(self, items: Sequence[PoolItem], strategy: str, context: RAGtuneContext, book: BatchBook) -> CostObject:
        """The expected charge; a reranker that fails to estimate counts as free, traced once a request."""
        docs = len(items)
        try:
            with context.tracker.gate:
                said = self._rerankers[strategy].expected_cost(items, context)
            return _booked(said, docs, self._expected_ms(said.latency_ms, docs, strategy, context, book))
        except InputError:
            raise
        except Exception as error:
            if strategy not in book.mispriced:
                book.mispriced.add(strategy)
                context.trace.add("reranker", "expected_cost_failed", strategy=strategy, error=describe(error))
            said = price_by_count([""] * docs, strategy)
        return _booked(said, docs, self._expected_ms(0.0, docs, strategy, context, book))

    def _expected_ms(self, said_ms: float, docs: int, strategy: str, context: RAGtuneContext, book: BatchBook) -> float:
        """The learned time, where time is limited; the reranker's own estimate until a batch was seen."""
        if not context.tracker.clock.is_real or self._simulates_time[strategy] or context.time_left_ms == np.inf:
            return said_ms
        learned_ms = self._paces[strategy].expect(docs)
        expected = said_ms if learned_ms is None else learned_ms
        if expected <= context.tracker.time_left_ms:
            return expected
        if strategy in self._starved and docs == 1 and not book.has_sent(strategy):
            return 0.0
        book.too_slow.add(strategy)
        return expected

    def close_book(self, book: BatchBook) -> None:
        """The request is over: what it has learned of its strategies is kept for the next ones."""
        for strategy in book.too_slow:
            if not book.has_sent(strategy):
                self._starved.add(strategy)
                self._paces[strategy].forget_slowest()
        book.close()

    def run(
        self, pool: CandidatePool, context: RAGtuneContext, proposal: BatchProposal, cost: CostObject, book: BatchBook
    ) -> BatchRequests[None]:
        """Have one paid batch scored; a document without a score is DROPPED, or put back (rules F1 and F6)."""
        tracker, strategy = context.tracker, proposal.strategy
        # Which documents may be sent again is the loop's to check, which knows the scheduler.
        pool.transition(proposal.doc_ids, ItemState.IN_FLIGHT, strategy, again=True)
        book.attempts[strategy].is_sent = True
        self._starved.discard(strategy)
        context.meter = CostMeter()
        started_ms = tracker.elapsed_ms
        items = pool.get_items(proposal.doc_ids)
        try:
            with tracker.gate:
                returned = yield RerankBatch(items, context, strategy)
            answer = _stored(returned, pool, context, proposal)
        except InputError:
            raise
        except Exception as error:
            answer = _Answer(dict.fromkeys(proposal.doc_ids, describe(error)), error)
        charged = self._bill(context, proposal, cost, started_ms, answer)
        book.actual_cost = book.actual_cost + context.meter.actual
        # What was learned of a live batch's time is a guess, and taking longer no overrun of the account.
        guessed = tracker.clock.is_real
        tracker.settle(_booked(cost, cost.docs, charged.latency_ms) if guessed else cost, charged)
        if answer.error is None:
            book.scored(strategy)
            scores = dict(zip(proposal.doc_ids, pool.batches[-1].scores.tolist(), strict=True))
            for doc_id in answer.lost:
                del scores[doc_id]
            context.trace.add("reranker", "rerank", strategy=strategy, scores=scores)
        else:
            tracker.refund(charged)
            self._count_failure(context, strategy, answer.error, book, docs=len(pool))
        if tracker.overrun_ms:
            limit, now = tracker.budget.max_latency_ms, tracker.elapsed_ms
            context.trace.add("budget", "overrun_latency", limit_ms=limit, elapsed_ms=now, batch_ms=now - started_ms)
        if answer.lost:
            self._lose(pool, context, strategy, answer.lost, book)

    def _bill(
        self, context: RAGtuneContext, proposal: BatchProposal, cost: CostObject, started_ms: float, answer: _Answer
    ) -> CostObject:
        """The charge, once the time has passed; a failed batch pays what was reported."""
        tracker, docs, has_failed = context.tracker, len(proposal.doc_ids), answer.error is not None
        said = context.meter.charged
        # A batch whose time was recorded, by a score table or a cache, lasts as long as it did when it was made.
        is_recorded = said is not None or self._simulates_time[proposal.strategy] or not tracker.clock.is_real
        if said is None:
            said = CostObject(latency_ms=cost.latency_ms) if has_failed else cost
        took_ms = tracker.let_pass(said.latency_ms if is_recorded else 0.0, started_ms)
        if tracker.clock.is_real and not has_failed:
            self._paces[proposal.strategy].observe(docs, max(0.0, took_ms - context.meter.waited_ms))
        if isinstance(answer.error, NotAskedError):
            return said.model_copy(update={"docs": 0, "latency_ms": took_ms})
        return _booked(said, docs, took_ms)

    @staticmethod
    def _count_failure(
        context: RAGtuneContext, strategy: str, error: Exception | str, book: BatchBook, *, docs: int
    ) -> None:
        why = error if isinstance(error, str) else describe(error)
        is_telling, is_last = not isinstance(error, InconclusiveError), isinstance(error, RequestOverError)
        book.not_asked += isinstance(error, NotAskedError)
        if book.failed_with(strategy, why, docs=docs, is_telling=is_telling, is_last=is_last):
            context.trace.add("controller", "close_strategy", strategy=strategy, error=book.closed[strategy])

    def _lose(
        self, pool: CandidatePool, context: RAGtuneContext, strategy: str, lost: Mapping[str, str], book: BatchBook
    ) -> None:
        kept = [doc_id for doc_id in lost if not np.isnan(pool.scores[pool.roster.index[doc_id]])]
        pool.transition(kept, ItemState.RERANKED)  # what an earlier batch said of them still holds
        lost = {doc_id: why for doc_id, why in lost.items() if doc_id not in kept}
        puts_back = strategy in self._puts_back
        pool.transition(lost, ItemState.CANDIDATE if puts_back else ItemState.DROPPED, again=puts_back)
        if not puts_back:
            book.dropped |= lost
        for why in dict.fromkeys(lost.values()):
            doc_ids = [doc_id for doc_id, reason in lost.items() if reason == why]
            context.trace.add("controller", "put_back" if puts_back else "drop", doc_ids=doc_ids, error=why)


def _stored(returned: Any, pool: CandidatePool, context: RAGtuneContext, proposal: BatchProposal) -> _Answer:
    if not isinstance(returned, Mapping):
        kind = type(returned).__name__
        raise TypeError(f"rerank() returned {kind}: allowed is a dict of scores by document id")
    if list(returned) == proposal.doc_ids:
        try:
            pool.update_scores(returned, proposal.strategy)
            return _Answer()
        except InvalidScoreError:
            pass  # which cost their own documents only
    return _partly(returned, pool, context, proposal)


def _partly(returned: Any, pool: CandidatePool, context: RAGtuneContext, proposal: BatchProposal) -> _Answer:
    sent = proposal.doc_ids
    lost = {
        doc_id: f"score {quoted(returned[doc_id])} is no number in [0, 1]"
        if doc_id in returned
        else "not scored by the reranker"
        for doc_id in sent
        if not is_calibrated(returned.get(doc_id))
    }
    if foreign := [words(key) for key in returned if key not in set(sent)]:
        context.trace.add("reranker", "foreign_scores", doc_ids=foreign[:10], count=len(foreign))
    if len(lost) == len(sent):
        return _Answer(lost, lost[sent[0]])
    pool.update_scores({doc_id: returned[doc_id] for doc_id in sent if doc_id not in lost}, proposal.strategy)
    return _Answer(lost)


def _booked(said: CostObject, docs: int, latency_ms: float) -> CostObject:
    calls = max(1, said.calls)
    if (said.docs, said.calls, said.latency_ms) == (docs, calls, latency_ms):
        return said
    return said.model_copy(update={"docs": docs, "calls": calls, "latency_ms": latency_ms})
