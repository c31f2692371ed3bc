"""One batch from its price to its scores: what is sent, what comes back, what it costs, and what fails."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from ragtune.core.batches.breaker import CircuitBreaker
from ragtune.core.batches.failures import FailurePolicy, RequestBreakers, closed_in
from ragtune.core.batches.pace import Pace
from ragtune.core.errors import InconclusiveError, InputError, NotAskedError, RequestOverError
from ragtune.core.interfaces import BaseReranker
from ragtune.core.plain import describe, quoted, words
from ragtune.core.pool.columns import all_calibrated, is_calibrated
from ragtune.core.pool.items import ItemState, PoolItem, RerankBatch
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.clock import MonotonicClock
from ragtune.core.request.context import CostMeter, RAGtuneContext, checked, reported
from ragtune.core.types import FREE, BatchProposal, CostObject, price_by_count

T = TypeVar("T")

BatchRequests = Generator[RerankBatch, Mapping[str, float], T]
"""Work that yields the batches to score, and receives their scores or the reranker's error."""


@dataclass
class _Answer:
    """Usable scores by document id, and for each other document of the batch why it has none.

    ``error`` is why the batch as a whole brought no score.
    """

    scores: dict[str, float] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    error: Exception | str | None = None


@dataclass
class BatchBook:
    """One request's batches: breakers, documents without a score, and the real cost.

    The sets name strategies: ``mispriced`` could not state a price, ``sent`` got a batch, ``too_slow`` had a batch that
    was expected to exceed the time left.
    """

    breakers: RequestBreakers
    dropped: dict[str, str] = field(default_factory=dict)
    actual_cost: CostObject = FREE
    mispriced: set[str] = field(default_factory=set)
    sent: set[str] = field(default_factory=set)
    too_slow: set[str] = field(default_factory=set)

    def fork(self) -> BatchBook:
        """A book that says what this one does now."""
        own = {name: copy(getattr(self, name)) for name in ("dropped", "mispriced", "sent", "too_slow")}
        return replace(self, breakers=self.breakers.fork(), **own)


class BatchRunner:
    """Prices batches and requests their scores.

    It books documents and calls from what is sent. A reranker can only report tokens, time, money and further calls.

    Args:
        rerankers: the rerankers by strategy name.
        policy: rules of how long a failing strategy is tried.
        sends_again: whether the scheduler sends documents again, so that every batch is a comparison.
    """

    def __init__(
        self, rerankers: Mapping[str, BaseReranker], policy: FailurePolicy, *, sends_again: bool = False
    ) -> None:
        self._rerankers = rerankers
        self._policy = policy
        comparing = {strategy for strategy, reranker in rerankers.items() if sends_again or reranker.compares}
        self._puts_back = comparing if policy.keep_unscored else set()
        self.forget_failures()
        self._paces = {strategy: Pace() for strategy in rerankers}
        self._simulates_time = {strategy: bool(reranker.simulates_time) for strategy, reranker in rerankers.items()}
        self._starved: set[str] = set()

    def forget_failures(self) -> None:
        """Open every strategy again."""
        policy, clock = self._policy, MonotonicClock()
        cooldown_ms = policy.retry_after_s * 1000.0
        self._run = {name: CircuitBreaker(policy.requests_in_a_row, cooldown_ms, clock) for name in self._rerankers}

    @property
    def closed(self) -> dict[str, str]:
        """The strategies that are not tried at present, and why."""
        return closed_in(self._run)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_run"}  # it holds locks and a clock

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        self.forget_failures()

    def open_book(self) -> BatchBook:
        """The book of a new request."""
        return BatchBook(RequestBreakers(self._run, self._policy))

    def price(self, items: Sequence[PoolItem], strategy: str, context: RAGtuneContext, book: BatchBook) -> CostObject:
        """The expected charge: the reranker's tokens, money and recorded time, the loop's count of documents and calls,
        and the time learned from live batches. A reranker that fails to estimate counts as free, traced once a request.

        Raises:
            InputError: if the reranker raises one.
        """
        reranker = self._rerankers[strategy]
        try:
            with context.tracker.read_only():
                said = checked(reranker.expected_cost(items, context))
        except InputError:
            raise
        except Exception as error:
            if strategy not in book.mispriced:
                book.mispriced.add(strategy)
                context.trace.add("reranker", "expected_cost_failed", strategy=strategy, error=describe(error))
            said = price_by_count([""] * len(items), strategy)
        return _booked(said, len(items), self._expected_ms(said.latency_ms, len(items), strategy, context, book))

    def _expected_ms(self, said_ms: float, docs: int, strategy: str, context: RAGtuneContext, book: BatchBook) -> float:
        """The learned time; the reranker's own estimate until a batch was seen."""
        if not context.tracker.clock.is_real or self._simulates_time[strategy]:
            return said_ms
        learned_ms = self._paces[strategy].expect(docs)
        expected = said_ms if learned_ms is None else learned_ms
        if expected <= context.tracker.time_left_ms:
            return expected
        if strategy in self._starved and docs == 1 and strategy not in book.sent:
            return 0.0
        book.too_slow.add(strategy)
        return expected

    def close_book(self, book: BatchBook) -> None:
        """The request is over: what it has learned of its strategies is kept for the next ones."""
        for strategy in book.too_slow - book.sent:
            self._starved.add(strategy)
            self._paces[strategy].forget_slowest()
        book.breakers.finish()

    def run(
        self, pool: CandidatePool, context: RAGtuneContext, proposal: BatchProposal, cost: CostObject, book: BatchBook
    ) -> BatchRequests[None]:
        """Have one paid batch scored. A document without a score is DROPPED, or a candidate again where documents are
        compared (rules F1 and F6).

        Raises:
            InputError: if the reranker raises one.
        """
        # Which documents may be sent again is the loop's to check, which knows the scheduler.
        pool.transition(proposal.doc_ids, ItemState.IN_FLIGHT, proposal.strategy, again=True)
        book.sent.add(proposal.strategy)
        self._starved.discard(proposal.strategy)
        context.meter = CostMeter()
        started_ms = context.tracker.elapsed_ms
        answer = yield from self._ask(pool, context, proposal)
        charged = self._bill(context, proposal, cost, started_ms, answer)
        book.actual_cost = book.actual_cost + reported(context, context.meter.actual, FREE)
        # What was learned of a live batch's time is a guess, and taking longer no overrun of the account.
        guessed = context.tracker.clock.is_real
        context.tracker.settle(_booked(cost, cost.docs, charged.latency_ms) if guessed else cost, charged)
        if answer.error is None:
            book.breakers.scored(proposal.strategy)
            context.trace.add("reranker", "rerank", strategy=proposal.strategy, scores=answer.scores)
        else:
            context.tracker.refund(charged)
            self._count_failure(context, proposal.strategy, answer.error, book, docs=len(pool))
        if context.tracker.overrun_ms:
            limit, now = context.tracker.budget.max_latency_ms, context.tracker.elapsed_ms
            context.trace.add("budget", "overrun_latency", limit_ms=limit, elapsed_ms=now, batch_ms=now - started_ms)
        self._lose(pool, context, proposal.strategy, answer.lost, book)

    @staticmethod
    def _ask(pool: CandidatePool, context: RAGtuneContext, proposal: BatchProposal) -> BatchRequests[_Answer]:
        items = pool.get_items(proposal.doc_ids)
        try:
            with context.tracker.read_only():
                returned = yield RerankBatch(items, context, proposal.strategy)
            answer = _usable(returned, proposal.doc_ids, context)
        except InputError:
            raise
        except Exception as error:
            return _Answer({}, dict.fromkeys(proposal.doc_ids, describe(error)), error)
        if answer.scores:
            pool.update_scores(answer.scores, proposal.strategy)
        else:
            answer.error = next(iter(answer.lost.values()))
        return answer

    def _bill(
        self, context: RAGtuneContext, proposal: BatchProposal, cost: CostObject, started_ms: float, answer: _Answer
    ) -> CostObject:
        """The charge, once the time has passed.

        A failed batch pays what was reported. One that was never sent pays its time, and what the reranker reports to
        have paid all the same.
        """
        tracker, docs, has_failed = context.tracker, len(proposal.doc_ids), answer.error is not None
        simulates_time = self._simulates_time[proposal.strategy]
        silent = CostObject(latency_ms=cost.latency_ms) if has_failed else cost
        has_reported = context.meter.charged is not None
        said = reported(context, context.meter.charged, silent)
        # A batch whose time was recorded, by a score table or a cache, lasts as long as it did when it was made.
        recorded_ms = said.latency_ms if has_reported or simulates_time or not tracker.clock.is_real else 0.0
        took_ms = tracker.let_pass(recorded_ms, started_ms)
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
        if book.breakers.failed_with(strategy, why, docs=docs, is_telling=is_telling, is_last=is_last):
            context.trace.add("controller", "close_strategy", strategy=strategy, error=book.breakers.closed[strategy])

    def _lose(
        self, pool: CandidatePool, context: RAGtuneContext, strategy: str, lost: Mapping[str, str], book: BatchBook
    ) -> None:
        if not lost:
            return
        kept = [doc_id for doc_id in lost if not np.isnan(pool.scores[pool.index_of(doc_id)])]
        pool.transition(kept, ItemState.RERANKED)  # what an earlier batch said of them still holds
        lost = {doc_id: why for doc_id, why in lost.items() if doc_id not in kept}
        if strategy in self._puts_back:
            pool.transition(lost, ItemState.CANDIDATE, again=True)
        else:
            pool.transition(lost, ItemState.DROPPED)
            book.dropped |= lost
        action = "put_back" if strategy in self._puts_back else "drop"
        for why in dict.fromkeys(lost.values()):
            doc_ids = [doc_id for doc_id, reason in lost.items() if reason == why]
            context.trace.add("controller", action, doc_ids=doc_ids, error=why)


def _usable(returned: Any, sent: Sequence[str], context: RAGtuneContext) -> _Answer:
    """The usable scores, and why the other documents of the batch have none."""
    if not isinstance(returned, Mapping):
        raise TypeError(f"rerank() returned {type(returned).__name__}: allowed is a dict of scores by document id")
    answer = _Answer()
    if list(returned) == list(sent) and all_calibrated(returned):
        return _Answer(scores={doc_id: float(score) for doc_id, score in returned.items()})
    for doc_id in sent:
        if doc_id not in returned:
            answer.lost[doc_id] = "not scored by the reranker"
        elif is_calibrated(score := returned[doc_id]):
            answer.scores[doc_id] = float(score)
        else:
            answer.lost[doc_id] = f"score {quoted(score)} is no number in [0, 1]"
    known = set(sent)
    if foreign := [words(key) for key in returned if key not in known]:
        context.trace.add("reranker", "foreign_scores", doc_ids=foreign[:10], count=len(foreign))
    return answer


def _booked(said: CostObject, docs: int, latency_ms: float) -> CostObject:
    calls = max(1, said.calls)
    if (said.docs, said.calls, said.latency_ms) == (docs, calls, latency_ms):
        return said
    return said.model_copy(update={"docs": docs, "calls": calls, "latency_ms": latency_ms})
