"""Replays requests whose order and batches are known before the first score, without asking for a decision."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from operator import attrgetter

import numpy as np

from experiments.evaluate.record import QueryRecord, Ranked, ties_of
from experiments.evaluate.states import Positions, after_each, small
from experiments.replay.begun import Begun
from experiments.replay.build import Session
from experiments.replay.plain_trace import PlainTrace, text_of
from ragtune.core.arrays import FloatArray, IntArray
from ragtune.core.loop import budget_stop
from ragtune.core.plain import plain
from ragtune.core.pool.columns import require_calibrated
from ragtune.core.pool.ordering import Ordering
from ragtune.core.request.budget import CostBudget, CostTracker
from ragtune.core.types import BUDGET_EXHAUSTED, FREE, CostObject, StopRecord
from ragtune.core.units import CALLS, DOCS, NAMES, UNITS

_BY_KIND = attrgetter(*(unit.limit for unit in UNITS if unit not in (DOCS, CALLS)))
"""Limits that may cut a batch by what its documents are, not by how many."""


def has_fixed_order(session: Session, budget: CostBudget) -> bool:
    """Whether no score changes what the session's policy does, under a budget that limits documents and calls alone."""
    return session.has_fixed_order and set(_BY_KIND(budget)) == {None}


class FixedOrders:
    """Requests of a policy that :func:`has_fixed_order`, replayed in one pass over all of them.

    What they say under a budget is what the controller says, every event of the trace included; the loop is left out,
    since it has nothing to decide.

    Args:
        session: the policy and the collection.
        begun: the requests.

    Raises:
        Exception: if a component does.
    """

    def __init__(self, session: Session, begun: Iterable[Begun]) -> None:
        self._all = [_FixedOrder(session, each) for each in begun]
        alike: dict[object, list[_FixedOrder]] = defaultdict(list)
        for order in self._all:
            alike[order.kind].append(order)
        self._groups = [_Alike(orders, session.parts["assembler"].ordering) for orders in alike.values()]

    def ranked_under(self, budget: CostBudget) -> list[Ranked]:
        """How each request ends under a budget, without its account.

        Raises:
            InputError: if a score is missing.
        """
        found: dict[_FixedOrder, Ranked] = {}
        for group in self._groups:
            ends = group.ends(budget)
            first, last = np.moveaxis(group.rankings([0, ends[-1]]), 1, 0)
            for order, *rankings in zip(group.orders, first, last, strict=True):
                found[order] = order.ranked(ends[-1], *rankings)
        return list(map(found.__getitem__, self._all))

    def under(self, budget: CostBudget, *, traced: bool = True) -> list[QueryRecord]:
        """The record of each request under a budget; without its trace where nobody will look at it.

        Raises:
            InputError: if a score is missing.
        """
        found: dict[_FixedOrder, QueryRecord] = {}
        for group in self._groups:
            ends = group.ends(budget)
            parts = zip(group.orders, group.scores(ends[-1]).tolist(), group.rankings(ends), strict=True)
            for order, scores, rankings in parts:
                found[order] = order.under(budget, ends, scores, rankings, traced=traced)
        return list(map(found.__getitem__, self._all))


class _FixedOrder:
    """One request: its documents in the order in which they are sent."""

    def __init__(self, session: Session, begun: Begun) -> None:
        self.begun, self._context, parts = begun, begun.context, session.parts
        self.pool = pool = begun.pool.fork()
        with pool.read_only(), self._context.tracker.read_only():
            valued = parts["estimator"].value(pool, self._context)
        pool.apply_priorities(valued)
        self._valued = plain(getattr(valued, "diagnostics", None))
        with pool.read_only():
            self.plan = parts["scheduler"].plan(pool)
        self._diagnostics = plain(self.plan.diagnostics)
        by = pool.priorities if pool.estimates.acquisition is None else pool.estimates.acquisition
        self.order: IntArray = (-by).argsort(kind="stable")
        self.ids = list(map(begun.doc_ids.__getitem__, self.order.tolist()))
        self._lengths: list[int] = pool.roster.token_counts[self.order].tolist()
        self._estimates: list[float] = pool.priorities[self.order].tolist()

    @property
    def kind(self) -> object:
        """What requests that are cut into batches and ranked together have in common."""
        return len(self.order), tuple(self.plan.sizes), self.pool.estimates.posterior is None

    def ranked(self, docs: int, first: Positions, final: Positions) -> Ranked:
        """How it ends after so many documents."""
        return Ranked(self._context.query_id, self.begun.doc_ids, first, final, docs)

    def under(
        self, budget: CostBudget, ends: Sequence[int], scores: Sequence[float], rankings: Positions, *, traced: bool
    ) -> QueryRecord:
        """Its record under a budget that allows the batches that end there, given the scores of what is sent."""
        doc_ids, tracker = self.begun.doc_ids, self._context.tracker.fork(budget, PlainTrace.forked)
        costs = list(self._sent(tracker, ends, scores))
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
            trace=text_of(tracker.trace) if traced else "",
            batches={"sent": len(ends) - 1, "failed": 0, "first_error": None},
            ties=ties_of(np.array(scores[: ends[-1]], dtype=float)),
        )

    def _sent(self, tracker: CostTracker, ends: Sequence[int], scores: Sequence[float]) -> Iterator[list[float]]:
        """Book batch by batch as the loop does, tell of it, and yield what has been spent by then; first before any."""
        strategy, tell = self.begun.strategy, tracker.trace.add
        yield self._noted(tracker)
        for start, end in pairwise(ends):
            doc_ids, cost = self.ids[start:end], self._price(self._lengths[start:end])
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
            yield self._noted(tracker)

    def _noted(self, tracker: CostTracker) -> list[float]:
        if self._valued:
            tracker.trace.add("estimator", "value", **self._valued)
        return tracker.amounts()

    def _price(self, lengths: list[int]) -> CostObject:
        return self.begun.reranker.price(self._context.query, lengths)

    def _stop(self, tracker: CostTracker, ends: Sequence[int]) -> StopRecord:
        n, batches = len(self.order), len(ends) - 1
        if ends[-1] == n:
            stop = StopRecord(reason="pool_exhausted" if n else "empty_pool", source="controller")
        elif account := tracker.exhausted_account():
            stop = budget_stop(account, tracker.trace, nothing_sent=not batches)
        else:
            stop = self.plan.stop.model_copy(update={"details": plain(self.plan.stop.details)})
        if not batches and stop.reason == BUDGET_EXHAUSTED:
            tracker.trace.add("controller", "skip_rerank", reason="budget_denied")
        return stop


_amounts = attrgetter(*NAMES)
"""A cost in each unit."""


class _Alike:
    """Requests of one kind, q of them with n documents each: their scores and their rankings as columns."""

    def __init__(self, orders: Sequence[_FixedOrder], ordering: Ordering) -> None:
        self.orders = orders
        self._ordering = ordering
        self._order = np.array([each.order for each in orders])
        self._scores: FloatArray = np.empty((len(orders), 0))
        self._rows: dict[int, Positions] = {}

    def ends(self, budget: CostBudget) -> list[int]:
        """Documents sent after each batch, 0 first: the plan's, as far as documents and calls go."""
        n = self._order.shape[1]
        docs = n if budget.max_reranker_docs is None else budget.max_reranker_docs
        ends = [0, *(min(end, docs) for end in accumulate(self.orders[0].plan.sizes))]
        sent = [end for end, before in zip(ends[1:], ends, strict=False) if end > before]
        return [0, *sent[: budget.max_reranker_calls]]

    def scores(self, count: int) -> FloatArray:
        """Scores of the first documents that are sent, shape (q, count).

        Raises:
            InputError: if a score is missing.
        """
        if count > self._scores.shape[1]:
            self._scores = np.array([each.begun.scores_of(each.order[:count]) for each in self.orders])
            if not (self._scores.min() >= 0.0 and self._scores.max() <= 1.0):
                for each, scores in zip(self.orders, self._scores, strict=True):
                    require_calibrated(scores, each.ids, "score")
        return self._scores[:, :count]

    def rankings(self, ends: Sequence[int]) -> Positions:
        """The rankings after each number of documents, shape (q, len(ends), n).

        Raises:
            InputError: if a score is missing.
        """
        if new := [end for end in ends if end not in self._rows]:
            q, n = self._order.shape
            at_once = max(1, _CELLS // (len(new) * max(n, 1)))
            blocks = [self._ranked(new, slice(start, start + at_once)) for start in range(0, q, at_once)]
            rankings = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
            self._rows |= zip(new, np.moveaxis(rankings, 1, 0), strict=True)
            if len(new) == len(ends):
                return rankings
        return np.stack([self._rows[end] for end in ends], axis=1)

    def _ranked(self, ends: Sequence[int], some: slice) -> Positions:
        """Rankings of some of the requests, shape (requests, len(ends), n)."""
        order, scores = self._order[some], self.scores(ends[-1])[some]
        row, sent = np.arange(len(order))[:, None], order[:, : scores.shape[1]]
        known = np.full(order.shape, np.nan)
        known[row, sent] = scores
        if self._ordering.puts_rest_behind(self.orders[0].pool.posteriors):
            best = (-known).argsort(axis=1, kind="stable")[:, : sent.shape[1]]  # what has no score comes last
            return after_each(ends, sent, best, np.broadcast_to(np.arange(order.shape[1]), order.shape))
        return self._sorted(ends, order, known, self.orders[some])

    def _sorted(
        self, ends: Sequence[int], order: IntArray, known: FloatArray, some: Sequence[_FixedOrder]
    ) -> Positions:
        """The same by keys of which more than their scores is part."""
        n, place = order.shape[1], order.argsort(axis=1)
        scores = np.where(place[:, None] < np.array(ends)[:, None], known[:, None], np.nan)
        columns = ("priorities", "base_scores", "posteriors")
        others = (np.array([getattr(each.pool, name) for each in some])[:, None] for name in columns)
        keys = self._ordering.keys_of(scores, *others)
        return small((-np.broadcast_to(keys, scores.shape)).argsort(axis=-1, kind="stable"), n)


_CELLS = 2**20
"""Documents in all rankings that are made at once."""
