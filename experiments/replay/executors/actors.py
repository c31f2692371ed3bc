"""Rerankers in Ray actors: each keeps the models, and scores what many tasks ask for in one call."""

from __future__ import annotations

import itertools
import json
import os
import pickle
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

from experiments.replay.component import component
from ragtune.adapters.batching import SharedCalls
from ragtune.core.drivers import Outcome
from ragtune.core.interfaces import BaseReranker
from ragtune.core.pool.batch import RerankBatch
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.bills import describe
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.context import CostMeter, RAGtuneContext
from ragtune.core.request.trace import TraceEvent
from ragtune.core.types import CostObject
from ragtune.rerankers._wrapped import WrappedReranker

_DEFAULT = "default"

_DOCS = 1024
"""Documents of a call of the queue; the reranker cuts it into passes of like length."""

_WAITING = 2**20
"""Batches that may wait: more than all tasks of a cluster have in flight."""


class Asked(NamedTuple):
    """A batch as it travels: what a reranker may read of the request, without its account, trace and pool."""

    items: Sequence[PoolItem]
    query: str
    query_id: str
    seed: int
    left_ms: float

    @classmethod
    def of(cls, items: Sequence[PoolItem], context: RAGtuneContext) -> Asked:
        """A batch of a request. A limit on simulated time says nothing of how long an actor may take."""
        left_ms = context.time_left_ms if context.tracker.clock.is_real else inf
        return cls(items, context.query, context.query_id, context.seed, left_ms)

    def context(self) -> RAGtuneContext:
        """A request for which the batch is scored."""
        limit = None if self.left_ms == inf else self.left_ms
        tracker = CostBudget.unlimited().model_copy(update={"max_latency_ms": limit}).create_tracker()
        return RAGtuneContext(query=self.query, query_id=self.query_id, tracker=tracker, seed=self.seed)


class Told(NamedTuple):
    """What became of a batch: scores or an error, what it cost, and what the reranker wrote into the trace."""

    outcome: Outcome
    meter: CostMeter
    events: Sequence[TraceEvent]


class Scorer:
    """The rerankers of a run, by strategy name, each behind a queue of batches.

    Args:
        nodes: their configurations.
    """

    def __init__(self, nodes: Mapping[str, Mapping[str, Any]]) -> None:
        made: dict[str, BaseReranker] = {
            name: component({"reranker": node}, "reranker") for name, node in nodes.items()
        }
        self._queues = {name: SharedCalls(each, 0.0, _DOCS, _WAITING) for name, each in made.items()}

    def prepare(self) -> None:
        """Load what the rerankers load beforehand.

        Raises:
            InputError: if a model cannot be loaded.
        """
        for queue in self._queues.values():
            queue.prepare()

    def score(self, strategy: str, asked: Sequence[Asked]) -> list[Told]:
        """Score batches, in the same calls as whatever else waits."""
        self.prepare()  # an actor that took the place of one that died has not
        batches = [RerankBatch(each.items, each.context(), strategy) for each in asked]
        outcomes = self._queues[strategy].rerank_many(batches)
        return [
            Told(_able_to_travel(outcome), batch.context.meter, batch.context.trace.events)
            for batch, outcome in zip(batches, outcomes, strict=True)
        ]

    def expected_cost(self, strategy: str, asked: Asked) -> CostObject:
        """What a batch is expected to be charged, where the model itself has to tell."""
        return self._queues[strategy].expected_cost(asked.items, asked.context())


class ActorReranker(WrappedReranker):
    """A reranker whose model is in Ray actors, which take calls by turns.

    What needs no model (prices, what a cache holds) is asked of a reranker of the same configuration in this process.

    Args:
        inner: that reranker, which is never made ready.
        strategy: its name.
        actors: names of the actors, each a :class:`Scorer`; at least one.
    """

    def __init__(self, inner: BaseReranker, strategy: str, actors: Sequence[str]) -> None:
        super().__init__(inner)
        self.strategy = strategy
        # Processes begin with different actors, so that their first calls do not all go to one.
        self._turns = itertools.islice(itertools.cycle(actors), os.getpid() % len(actors), None)

    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> dict[str, float]:
        (outcome,) = self.rerank_many([RerankBatch(items, context, strategy)])
        if isinstance(outcome, Exception):
            raise outcome
        return dict(outcome)

    def rerank_many(self, batches: Sequence[RerankBatch]) -> list[Outcome]:
        told: list[Told] = self._ask("score", [Asked.of(batch.items, batch.context) for batch in batches])
        for each, batch in zip(told, batches, strict=True):
            _book(each, batch.context)
        return [each.outcome for each in told]

    def expected_cost(self, items: Sequence[PoolItem], context: RAGtuneContext) -> CostObject:
        """The inner reranker's; under a limit on real time that of an actor, whose model has shown how fast it is."""
        asked = Asked.of(items, context)
        if asked.left_ms == inf:
            return super().expected_cost(items, context)
        with context.tracker.clock.paused():
            cost: CostObject = self._ask("expected_cost", asked)
        return cost

    def prepare(self) -> None:
        pass  # the actors make themselves ready

    def _ask(self, method: str, what: Any) -> Any:
        import ray

        actor = ray.get_actor(next(self._turns))
        try:
            return ray.get(getattr(actor, method).remote(self.strategy, what))
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except ray.exceptions.RayError as error:
            # No failure of the reranker, which would cost documents their score: this process ends as one that was
            # killed does, so that Ray begins its shard anew, and the driver says what was lost if that does not help.
            raise SystemExit(f"{type(error).__name__}: no actor answers") from error


def asking(config_json: str, actors: Sequence[str]) -> str:
    """The configuration in which the actors are asked instead of every reranker."""
    config = json.loads(config_json)
    asked = {name: _through(node, name, actors) for name, node in rerankers_of(config).items()}
    return json.dumps({**config, "reranker": asked.pop(_DEFAULT), "rerankers": asked}, sort_keys=True)


def rerankers_of(config: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The configurations of a run's rerankers by strategy name."""
    return {_DEFAULT: config["reranker"], **config["rerankers"]}


def _through(node: Mapping[str, Any], strategy: str, actors: Sequence[str]) -> dict[str, Any]:
    target = f"{ActorReranker.__module__}.{ActorReranker.__qualname__}"
    return {"_target_": target, "inner": node, "strategy": strategy, "actors": list(actors)}


def _book(told: Told, context: RAGtuneContext) -> None:
    """Enter into a request what happened elsewhere on its account."""
    if told.meter.charged is not None:
        context.meter.charge(told.meter.charged)
    context.meter.pay(told.meter.actual)
    context.meter.wait(told.meter.waited_ms)
    for event in told.events:
        context.trace.add(event.component, event.action, **event.details)


def _able_to_travel(outcome: Outcome) -> Outcome:
    """The outcome, or the words of an error that cannot be taken apart and put together again."""
    try:
        pickle.loads(pickle.dumps(outcome))  # noqa: S301 -- what was pickled right before
    except Exception:
        return RuntimeError(describe(outcome)) if isinstance(outcome, Exception) else outcome
    return outcome
