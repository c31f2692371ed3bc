"""Drivers of the loop: they have batches scored, of one request or of many together, to the same answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any, Generic

from ragtune.core.batches.runner import BatchRequests, T
from ragtune.core.component import outcome_of
from ragtune.core.errors import InputError
from ragtune.core.interfaces import BaseReranker
from ragtune.core.plain import describe
from ragtune.core.pool.items import RerankBatch

Rerankers = Mapping[str, BaseReranker]
Scored = Mapping[str, float] | Exception
"""Scores of a batch by document id, or the error that the reranker raised."""


class Flight(Generic[T]):
    """One request under way: ``pending`` is the batch to score next, None once the request has its ``result``."""

    pending: RerankBatch | None
    result: T

    def __init__(self, requests: BatchRequests[T]) -> None:
        self._requests = requests
        self._advance(next, requests)

    def answer(self, scored: Scored) -> None:
        self._advance(self._requests.throw if isinstance(scored, Exception) else self._requests.send, scored)

    def _advance(self, step: Callable[[Any], RerankBatch], given: Any) -> None:
        self.pending = None
        try:
            self.pending = step(given)
        except StopIteration as end:
            self.result = end.value


def alone(requests: BatchRequests[T], rerankers: Rerankers) -> T:
    """The result of one request, its batches scored one after the other."""
    with closing(requests):
        flight = Flight(requests)
        while (batch := flight.pending) is not None:
            flight.answer(outcome_of(batch, rerankers[batch.strategy]))
        return flight.result


def lockstep(requests: Iterable[BatchRequests[T]], rerankers: Rerankers, width: int) -> list[T]:
    """The results of many requests in order, ``width`` of them scored together; an InputError of any ends all."""
    waiting = iter(requests)
    flights: list[Flight[T]] = []
    with ExitStack() as under_way:
        while True:
            pending = [(flight, flight.pending) for flight in flights if flight.pending is not None]
            while len(pending) < width and (request := next(waiting, None)) is not None:
                under_way.enter_context(closing(request))
                flights.append(flight := Flight(request))
                pending += [(flight, flight.pending)] if flight.pending is not None else []
            if not pending:
                return [flight.result for flight in flights]
            for strategy in dict.fromkeys(batch.strategy for _, batch in pending):
                together = [(flight, batch) for flight, batch in pending if batch.strategy == strategy]
                answers = score_together([batch for _, batch in together], rerankers[strategy])
                for (flight, _), scored in zip(together, answers, strict=True):
                    flight.answer(scored)


def score_together(batches: Sequence[RerankBatch], reranker: BaseReranker) -> list[Scored]:
    """What each batch brought, scored in one call; where that fails as a whole, each is scored alone."""
    if len(batches) > 1:
        try:
            together = list(reranker.rerank_many(batches))
            if len(together) == len(batches):
                return together
            raise ValueError(f"rerank_many() returned {len(together)} outcomes for {len(batches)} batches")
        except InputError:
            raise
        except Exception as error:
            for batch in batches:
                batch.context.trace.add("reranker", "joint_call_failed", error=describe(error))
    return [outcome_of(batch, reranker) for batch in batches]
