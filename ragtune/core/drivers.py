"""Drivers of the loop: they have the batches scored that requests wish for, one request at a time or many together.

A request decides by its own scores alone, so every driver gives it the same answer. Only a limit on time may make a
difference: a call that many share takes each of them as long as the whole call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Generic

from ragtune.core.batches.runner import T, Wishes
from ragtune.core.errors import InputError
from ragtune.core.interfaces import BaseReranker
from ragtune.core.pool.batch import RerankBatch
from ragtune.core.request.bills import describe

Rerankers = Mapping[str, BaseReranker]
Outcome = Mapping[str, float] | Exception
"""What became of a batch: scores by document id, or the error that the reranker raised."""


class Flight(Generic[T]):
    """One request under way.

    Attributes:
        wish: the batch that it wants scored next; None once it has its result.
        result: what it came to.
    """

    wish: RerankBatch | None
    result: T

    def __init__(self, wishes: Wishes[T]) -> None:
        self._wishes = wishes
        self._go_on(lambda: next(wishes))

    def answer(self, outcome: Outcome) -> None:
        """Hand in what became of the batch, and go on to the next one."""
        if isinstance(outcome, Exception):
            self._go_on(lambda: self._wishes.throw(outcome))
        else:
            self._go_on(lambda: self._wishes.send(outcome))

    def close(self) -> None:
        """End the request where it stands; one that has its result is left alone."""
        self._wishes.close()

    def _go_on(self, step: Callable[[], RerankBatch]) -> None:
        self.wish = None
        try:
            self.wish = step()
        except StopIteration as end:
            self.result = end.value


def alone(wishes: Wishes[T], rerankers: Rerankers) -> T:
    """The result of one request, which has its batches scored one after the other.

    Raises:
        InputError: if a component does.
    """
    flight = Flight(wishes)
    for _ in stepwise(flight, rerankers):
        pass
    return flight.result


def stepwise(flight: Flight[T], rerankers: Rerankers) -> Iterator[RerankBatch]:
    """Score the batches of one request one after the other, and yield each before it is scored.

    Raises:
        InputError: if a component does.
    """
    try:
        while (wish := flight.wish) is not None:
            yield wish
            flight.answer(_scored(wish, rerankers[wish.strategy]))
    finally:
        flight.close()


def lockstep(requests: Iterable[Wishes[T]], rerankers: Rerankers, width: int) -> list[T]:
    """The results of many requests, in their order: what ``width`` of them wish for next is scored together.

    A request that has its result makes room for the next one at once. Where a joint call fails as a whole, each of its
    batches is scored alone, so that one request's trouble is not another's.

    Args:
        requests: the requests, begun one after the other.
        rerankers: the rerankers by strategy name.
        width: requests under way at once, >= 1.

    Raises:
        InputError: if a component does: bad input ends all of them.
    """
    waiting = iter(requests)
    flights: list[Flight[T]] = []
    active: list[Flight[T]] = []
    with ExitStack() as open_flights:
        while True:
            while len(active) < width and (wishes := next(waiting, None)) is not None:
                flights.append(Flight(wishes))
                open_flights.callback(flights[-1].close)
                active += [flights[-1]] if flights[-1].wish is not None else []
            if not active:
                return [flight.result for flight in flights]
            outcomes = _outcomes([flight.wish for flight in active if flight.wish is not None], rerankers)
            for flight, outcome in zip(active, outcomes, strict=True):
                flight.answer(outcome)
            active = [flight for flight in active if flight.wish is not None]


def _outcomes(wishes: Sequence[RerankBatch], rerankers: Rerankers) -> list[Outcome]:
    """What becomes of each batch; those of one strategy are scored together."""
    by_strategy: dict[str, list[int]] = {}
    for i, wish in enumerate(wishes):
        by_strategy.setdefault(wish.strategy, []).append(i)
    outcomes: dict[int, Outcome] = {}
    for strategy, positions in by_strategy.items():
        batches = [wishes[i] for i in positions]
        outcomes |= zip(positions, score_together(batches, rerankers[strategy]), strict=True)
    return [outcomes[i] for i in range(len(wishes))]


def score_together(batches: Sequence[RerankBatch], reranker: BaseReranker) -> list[Outcome]:
    """What becomes of each batch, scored in one call; where that fails as a whole, each is scored alone.

    Raises:
        InputError: if the joint call does.
    """
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
    return [_scored(batch, reranker) for batch in batches]


def _scored(batch: RerankBatch, reranker: BaseReranker) -> Outcome:
    try:
        return reranker.rerank(batch.items, batch.context, batch.strategy)
    except Exception as error:
        return error
