"""Replays requests whose order and batches are known before the first score, without asking for a decision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from operator import attrgetter
from typing import Any

import numpy as np
from pydantic_core import to_json

from experiments.evaluate.record import QueryRecord, Ranked
from experiments.evaluate.states import Positions, after_each, small
from experiments.replay.build import Session
from ragtune.core.arrays import FloatArray, IntArray
from ragtune.core.loop import budget_stop
from ragtune.core.output import ControllerOutput
from ragtune.core.plain import plain
from ragtune.core.pool.columns import constant, require_calibrated
from ragtune.core.request.budget import CostBudget, CostTracker
from ragtune.core.request.clock import Clock
from ragtune.core.request.request import Request
from ragtune.core.request.trace import ControllerTrace
from ragtune.core.types import BUDGET_EXHAUSTED, FREE, CostObject, StopRecord
from ragtune.core.units import CALLS, DOCS, NAMES, UNITS

_BY_KIND = attrgetter(*(unit.limit for unit in UNITS if unit not in (DOCS, CALLS)))
"""Limits that may cut a batch by what its documents are, not by how many."""


def has_fixed_order(session: Session, budget: CostBudget) -> bool:
    """Whether no score changes what the session's policy does, under a budget that limits documents and calls alone."""
    return session.has_fixed_order and set(_BY_KIND(budget)) == {None}


class Begun:
    """A request as retrieval leaves it, whatever its policy, and the scores that any policy has asked for.

    Args:
        session: the collection, its first stage and its reranker.
        query_id: id of the query.

    Raises:
        InputError: if a component does.
    """

    def __init__(self, session: Session, query_id: str) -> None:
        text = session.dataset.queries[query_id]
        self.pool, self.context = session.controller.begin(Request(text, query_id))
        self.doc_ids = list(self.pool.doc_ids)
        self.strategy, self.reranker = next(iter(session.rerankers.items()))
        self._scores: FloatArray = np.full(len(self.doc_ids), np.nan)

    def scores_of(self, positions: IntArray) -> FloatArray:
        """Scores of the documents at these positions in the pool; the reranker is asked for those not known yet.

        Raises:
            InputError: if a score is missing.
        """
        unknown = np.isnan(self._scores[positions])
        if unknown.any():
            new = positions[unknown]
            doc_ids = [self.doc_ids[i] for i in new.tolist()]
            said = self.reranker.scores_of(doc_ids, self.context)
            scores = np.fromiter(map(said.__getitem__, doc_ids), float, len(doc_ids))
            require_calibrated(scores, doc_ids, "score")
            self._scores[new] = scores
        return self._scores[positions]


class FixedOrder:
    """One request of a policy that :func:`has_fixed_order`: its documents in their order, and the scores of all.

    What it says under a budget is what the controller says, every event of the trace included; the loop is left out,
    since it has nothing to decide.

    Args:
        session: the policy and the collection.
        begun: the request.

    Raises:
        InputError: if a component does.
    """

    def __init__(self, session: Session, begun: Begun) -> None:
        self._begun, self._context, parts = begun, begun.context, session.parts
        self._pool = pool = begun.pool.fork()
        pool.apply_priorities(parts["estimator"].value(pool, self._context))
        self._plan = parts["scheduler"].plan(pool)
        self._diagnostics = plain(self._plan.diagnostics)
        by = pool.priorities if pool.estimates.acquisition is None else pool.estimates.acquisition
        self._order: IntArray = (-by).argsort(kind="stable")
        self._ids = list(map(begun.doc_ids.__getitem__, self._order.tolist()))
        self._lengths: list[int] = pool.roster.token_counts[self._order].tolist()
        self._estimates: list[float] = pool.priorities[self._order].tolist()
        self._ordering = parts["assembler"].ordering
        self._rows: dict[int, Positions] = {}

    def ranked_under(self, budget: CostBudget) -> Ranked:
        """How the request ends under a budget, without its account.

        Raises:
            InputError: if a score is missing.
        """
        ends = self._ends(budget)
        first, final = self._rankings([0, ends[-1]])
        docs = sum(self._price(self._lengths[start:end]).docs for start, end in pairwise(ends))
        return Ranked(self._context.query_id, self._begun.doc_ids, first, final, docs)

    def under(self, budget: CostBudget, *, traced: bool = True) -> QueryRecord:
        """The record of the request under a budget; without its trace where nobody will look at it.

        Raises:
            InputError: if a score is missing.
        """
        ends, doc_ids = self._ends(budget), self._begun.doc_ids
        rankings = self._rankings(ends)
        tracker = self._context.tracker.fork(budget, PlainTrace.forked)
        costs = [tracker.amounts(), *self._sent(tracker, ends)]
        stop = self._stop(tracker, ends).model_dump()
        tracker.trace.add("controller", "stop", **stop)
        documents = list(map(doc_ids.__getitem__, rankings[-1].tolist()))
        tokens = sum(self._lengths)
        with tracker.assembling():
            tracker.try_consume_tokens(tokens)
        tracker.trace.add("assembler", "assemble", documents=documents)
        return QueryRecord(
            query_id=self._context.query_id,
            doc_ids=doc_ids,
            rankings=rankings,
            costs=costs,
            actual=list(_amounts(FREE)),
            stop=stop,
            account=tracker.snapshot(),
            dropped={},
            context_docs=len(documents),
            context_tokens=tokens,
            trace=_text(tracker.trace) if traced else "",
            batches={"sent": len(ends) - 1, "failed": 0, "first_error": None},
        )

    def _ends(self, budget: CostBudget) -> list[int]:
        """Documents sent after each batch, 0 first: the plan's, as far as documents and calls go."""
        docs = len(self._order) if budget.max_reranker_docs is None else budget.max_reranker_docs
        ends = [0, *(min(end, docs) for end in accumulate(self._plan.sizes))]
        sent = [end for end, before in zip(ends[1:], ends, strict=False) if end > before]
        return [0, *sent[: budget.max_reranker_calls]]

    def _sent(self, tracker: CostTracker, ends: Sequence[int]) -> Iterator[list[float]]:
        """Book batch by batch as the loop does, tell of it, and yield what has been spent by then."""
        strategy, tell = self._begun.strategy, tracker.trace.add
        scores = self._begun.scores_of(self._order[: ends[-1]]).tolist()
        for start, end in pairwise(ends):
            doc_ids, cost = self._ids[start:end], self._price(self._lengths[start:end])
            tell(
                "scheduler",
                "propose",
                doc_ids=doc_ids,
                strategy=strategy,
                expected_cost=cost.by_unit(),
                estimates=self._estimates[start:end],
                diagnostics=self._diagnostics,
            )
            tracker.consume(cost)
            if cost.latency_ms:  # nothing else moves the clock
                took_ms = tracker.let_pass(cost.latency_ms, tracker.elapsed_ms)
                if took_ms != cost.latency_ms:
                    tracker.settle(cost, cost.model_copy(update={"latency_ms": took_ms}))
            tell("reranker", "rerank", strategy=strategy, scores=dict(zip(doc_ids, scores[start:end], strict=True)))
            yield tracker.amounts()

    def _price(self, lengths: list[int]) -> CostObject:
        return self._begun.reranker.price(self._context.query, lengths)

    def _stop(self, tracker: CostTracker, ends: Sequence[int]) -> StopRecord:
        n, batches = len(self._order), len(ends) - 1
        if ends[-1] == n:
            stop = StopRecord(reason="pool_exhausted" if n else "empty_pool", source="controller")
        elif account := tracker.exhausted_account():
            stop = budget_stop(account, tracker.trace, nothing_sent=not batches)
        else:
            stop = self._plan.stop
        if not batches and stop.reason == BUDGET_EXHAUSTED:
            tracker.trace.add("controller", "skip_rerank", reason="budget_denied")
        return stop

    def _rankings(self, ends: Sequence[int]) -> Positions:
        """The ranking after each number of documents, those that are not known yet in one pass.

        Raises:
            InputError: if a score is missing.
        """
        if new := [end for end in ends if end not in self._rows]:
            sent = self._order[: new[-1]]
            scores = np.full(len(self._pool), np.nan)
            scores[sent] = self._begun.scores_of(sent)
            if self._ordering.puts_rest_behind(self._pool.posteriors):
                best = (-scores).argsort(kind="stable")[: len(sent)]  # what has no score comes last
                rankings = after_each(new, sent, best, np.arange(len(scores)))
            else:
                rankings = self._sorted(np.array(new), scores)
            self._rows |= zip(new, rankings, strict=True)
            if len(new) == len(ends):
                return rankings
        return np.array([self._rows[end] for end in ends])

    def _sorted(self, ends: IntArray, scores: FloatArray) -> Positions:
        """The ranking after each number of documents, by keys of which more than their scores is part."""
        pool, n = self._pool, len(scores)
        place = np.empty(n)
        place[self._order] = np.arange(n)
        known = np.where(place < ends[:, None], scores, np.nan)
        keys = self._ordering.keys_of(constant(n, False), known, pool.priorities, pool.base_scores, pool.posteriors)
        return small((-np.broadcast_to(keys, known.shape)).argsort(axis=-1, kind="stable"), n)


_amounts = attrgetter(*NAMES)
"""A cost in each unit."""


class QueryReplay:
    """One query through a session's policy, by the shortest way there is.

    Args:
        session: policy and collection.
        query_id: id of the query.
        begun: the request, where other policies of a fixed order have begun it.
    """

    def __init__(self, session: Session, query_id: str, begun: Begun | None = None) -> None:
        self._session = session
        self._query_id = query_id
        self._begun = begun

    def under(self, budget: CostBudget, *, traced: bool = True) -> QueryRecord:
        """The record under a budget, in place of the session's; without its trace where nobody will look at it.

        Raises:
            InputError: if a component does.
        """
        if has_fixed_order(self._session, budget):
            return self._order.under(budget, traced=traced)
        return QueryRecord.of(self._run(budget), traced=traced)

    def ranked_under(self, budget: CostBudget) -> Ranked:
        """How the query ends under a budget, where nobody will look at more.

        Raises:
            InputError: if a component does.
        """
        if has_fixed_order(self._session, budget):
            return self._order.ranked_under(budget)
        return Ranked.of(QueryRecord.of(self._run(budget), traced=False))

    def _run(self, budget: CostBudget) -> ControllerOutput:
        text = self._session.dataset.queries[self._query_id]
        return self._session.controller.run(text, budget, query_id=self._query_id)

    @cached_property
    def _order(self) -> FixedOrder:
        return FixedOrder(self._session, self._begun or Begun(self._session, self._query_id))


class PlainTrace(ControllerTrace):
    """A trace whose events are plain data, as its text has them; made and written in a fifth of the time."""

    events: list[Any]

    @classmethod
    def forked(cls, trace: ControllerTrace, clock: Clock) -> PlainTrace:
        """A trace with the same events so far, whose next ones are stamped by ``clock``."""
        events = [{name: getattr(event, name) for name in event.__slots__} for event in trace.events]
        state, twin = trace.__getstate__(), cls.__new__(cls)
        twin.__setstate__({**state, "__dict__": {**state["__dict__"], "events": events, "clock": clock}})
        return twin

    def add(self, component: str, action: str, /, **details: Any) -> None:
        now = self.clock.now_ms() - self.start_ms
        self.events.append({"timestamp": now, "component": component, "action": action, "details": details})


def _text(trace: ControllerTrace) -> str:
    """What ``model_dump_json`` says of a trace whose events are plain data, at an eighth of its time."""
    return to_json({"query_id": trace.query_id, "events": trace.events}).decode()
