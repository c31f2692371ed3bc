"""The iterative loop: estimate, record, schedule, pay, rerank, repeat (rule S4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ragtune.core.batches.failures import BatchBook, FailurePolicy
from ragtune.core.batches.runner import BatchRequests, BatchRunner
from ragtune.core.errors import InputError
from ragtune.core.hits import checked_documents
from ragtune.core.interfaces import BaseEstimator, BaseExpander, BaseReranker, BaseScheduler
from ragtune.core.output import HistoryStep, RunState
from ragtune.core.plain import describe, plain
from ragtune.core.pool.ordering import Ordering
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.pool.valuation import Valuation
from ragtune.core.request.accounts import UnitAccount
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import (
    BUDGET_EXHAUSTED,
    STRATEGY_CLOSED,
    BatchProposal,
    CostObject,
    Pricer,
    StopRecord,
    watched,
)

FIRST_ROUND = "first_round_incomplete"
"""Action of the event that names the documents and the calls of a first round for which the budget was too small."""

_BUDGET_DENIED = "budget_denied"
_BUDGET_ENDED = (BUDGET_EXHAUSTED, _BUDGET_DENIED)


class RerankLoop:
    """Yields batches and receives their scores until the budget, the pool or the scheduler says stop; stateless."""

    def __init__(
        self,
        estimator: BaseEstimator,
        scheduler: BaseScheduler,
        rerankers: Mapping[str, BaseReranker],
        ordering: Ordering,
        expander: BaseExpander | None,
        failures: FailurePolicy,
    ) -> None:
        self._estimator = estimator
        self._scheduler = scheduler
        self._strategies = tuple(rerankers)
        self.batches = BatchRunner(rerankers, failures, sends_again=scheduler.sends_again)
        self._keeps_dropped = failures.keep_unscored
        self._ordering = ordering
        self._expander = expander if expander is not None and expander.is_active else None

    def run(self, state: RunState) -> BatchRequests[StopRecord]:
        """Spend the request's budget on the pool; smaller budgets fork off where their decisions first differ."""
        state.pool.keeps_dropped = self._keeps_dropped
        state.pool.gate = state.context.tracker.gate
        stop = yield from self._to_its_end(state, is_noted=False)
        state.forks.saw_reader |= bool(state.forks) and state.context.tracker.budget_was_read
        return stop

    def _to_its_end(self, state: RunState, *, is_noted: bool) -> BatchRequests[StopRecord]:
        """Go on until something says stop; ``is_noted`` where the present state is in the history already."""
        pool, context, history, book, forks = state
        stop: StopRecord | None = None
        try:
            while stop is None:
                if not is_noted:
                    if forks.waiting:
                        yield from self._fork(forks.below(context.tracker.spent(), or_at=True), state, is_noted=False)
                    stop = self._note(pool, context, history)
                is_noted = False
                stop = stop or (yield from self._step(state))
        finally:
            self.batches.close_book(book)
        if len(history) == 1 and stop.reason in _BUDGET_ENDED:
            context.trace.add("controller", "skip_rerank", reason=_BUDGET_DENIED)
        _tell_of_first_round(pool, context, stop)
        context.trace.add("controller", "stop", **vars(stop))
        return stop

    def _fork(self, budgets: Sequence[CostBudget], state: RunState, *, is_noted: bool) -> BatchRequests[None]:
        """Continue under each of these budgets to its end."""
        state.forks.saw_reader |= bool(budgets) and state.context.tracker.budget_was_read
        for budget in budgets:
            own = state.fork(budget)
            state.forks.ended[budget] = own, (yield from self._to_its_end(own, is_noted=is_noted))

    def _note(self, pool: CandidatePool, context: RAGtuneContext, history: list[HistoryStep]) -> StopRecord | None:
        stop = self._estimate(pool, context)
        # The expansion starts from the best documents known now, so it comes after the estimate.
        if self._expander is not None and stop is None and history and self._expand(self._expander, pool, context):
            stop = self._estimate(pool, context)
        step = HistoryStep(context.tracker.amounts(), pool.doc_ids, self._ordering, pool.columns())
        history.append(step)
        pool.note(lambda: step.ranking)
        return stop

    def _estimate(self, pool: CandidatePool, context: RAGtuneContext) -> StopRecord | None:
        if not len(pool):
            return None
        try:
            with context.tracker.gate:
                priorities = self._estimator.value(pool, context)
            pool.apply_priorities(priorities)
            if isinstance(priorities, Valuation) and priorities.diagnostics:
                context.trace.add("estimator", "value", **plain(priorities.diagnostics))
        except InputError:
            raise
        except Exception as error:
            return _failure("estimator", error)
        return None

    def _step(self, state: RunState) -> BatchRequests[StopRecord | None]:
        pool, context, _, book, forks = state
        if not len(pool.eligible) and not (self._scheduler.sends_again and len(pool.reranked)):
            return StopRecord(reason="pool_exhausted" if len(pool) else "empty_pool", source="controller")
        if exhausted := context.tracker.exhausted_account():
            return _exhausted(exhausted, pool, context)
        pricer = self._pricer(pool, context, book)
        proposal = self._admitted(state, pricer)
        if isinstance(proposal, StopRecord):
            return proposal
        cost = pricer(proposal.doc_ids, proposal.strategy)
        if forks.waiting:
            yield from self._fork(forks.below(context.tracker.spent() + cost), state, is_noted=True)
        context.trace.add(
            "scheduler",
            "propose",
            doc_ids=list(proposal.doc_ids),
            strategy=proposal.strategy,
            expected_cost=cost.by_unit(),
            estimates=pool.priorities[pool.positions(proposal.doc_ids)].tolist(),
            diagnostics=plain(proposal.diagnostics),
        )
        if short := context.tracker.charge(cost):
            return StopRecord(reason=_BUDGET_DENIED, source="budget", details=short.figures(), message=short.in_words())
        yield from self.batches.run(pool, context, proposal, cost, book)
        return None

    def _admitted(self, state: RunState, pricer: Pricer) -> BatchProposal | StopRecord:
        """A proposal for a strategy that may be tried; where that one is closed, the scheduler is asked anew."""
        book = state.book
        while True:
            shown = set(book.closed)
            proposal = self._propose(state, pricer)
            if isinstance(proposal, StopRecord) or book.admits(proposal.strategy):
                return proposal
            if proposal.strategy in shown:
                return _closed(proposal.strategy, book)

    def _propose(self, state: RunState, pricer: Pricer) -> BatchProposal | StopRecord:
        pool, context, _, book, forks = state
        closed = tuple(filter(book.closed.__contains__, self._strategies))
        view = context.tracker.remaining_view(self._strategies, pricer, closed)
        if forks.waiting:
            view = watched(view, lambda: setattr(context.tracker, "budget_was_read", True))
        try:
            with context.tracker.gate:
                proposal = self._scheduler.select_batch(pool, view)
            if proposal is None:
                return StopRecord(reason="no_proposal", source="scheduler")
            if isinstance(proposal, StopRecord):
                return _explained(proposal, pool, context, pricer, book)
            if problem := self._objection(pool, proposal):
                return StopRecord(reason="illegal_proposal", source="scheduler", details={"error": problem})
        except InputError:
            raise
        except Exception as error:
            return _failure("scheduler", error)
        return proposal

    def _objection(self, pool: CandidatePool, proposal: BatchProposal) -> str | None:
        if not isinstance(proposal, BatchProposal):
            return f"a proposal of type {type(proposal).__name__}: allowed is BatchProposal, StopRecord or None"
        if proposal.strategy not in self._strategies:
            return f"unknown strategy {proposal.strategy!r}: registered are {', '.join(self._strategies)}"
        if not proposal.doc_ids:
            return "an empty batch: propose at least one document, or stop"
        if len(set(proposal.doc_ids)) != len(proposal.doc_ids):
            return "a document is proposed twice"
        others = pool.not_candidates(proposal.doc_ids, again=self._scheduler.sends_again)
        return f"not CANDIDATE: {others}" if others else None

    def _expand(self, expander: BaseExpander, pool: CandidatePool, context: RAGtuneContext) -> bool:
        """Whether the pool has grown; no document is looked for that no further batch could score."""
        limit = context.tracker.remaining_expansion()
        if limit == 0 or context.tracker.is_exhausted():
            return False
        try:
            with context.tracker.gate:
                found = checked_documents(expander.expand(pool, context, limit))
            joining = pool.roster.joining(found)
        except InputError:
            raise
        except Exception as error:
            context.trace.add("expander", "expansion_failed", error=describe(error))
            return False
        new = list(joining.doc_ids)
        if not new or not context.tracker.try_consume_expansion(len(new)):
            return False
        pool.grow(joining)
        context.trace.add("expander", "expand", doc_ids=new)
        return True

    def _pricer(self, pool: CandidatePool, context: RAGtuneContext, book: BatchBook) -> Pricer:
        """What batches would be charged before the next one is sent; the scheduler and the loop ask for the same."""
        said: dict[tuple[tuple[str, ...], str], CostObject] = {}

        def price(doc_ids: Sequence[str], strategy: str) -> CostObject:
            batch = (tuple(doc_ids), strategy)
            if (cost := said.get(batch)) is None:
                cost = said[batch] = self.batches.price(pool.get_items(doc_ids), strategy, context, book)
            return cost

        return price


def _exhausted(account: UnitAccount, pool: CandidatePool, context: RAGtuneContext) -> StopRecord:
    if not pool.batches:
        # Nothing was ever proposed, so this is the only place that can say what stood in the way (rule H4).
        context.trace.add("budget", "deny_rerank", **account.figures())
    details = {"limit": account.unit, "used": account.used, "allowed": account.limit}
    return StopRecord(reason=BUDGET_EXHAUSTED, source="budget", details=details, message=account.in_words())


def _tell_of_first_round(pool: CandidatePool, context: RAGtuneContext, stop: StopRecord) -> None:
    """Note it where a budget that is not 0 has ended before the estimator's first round did, and what that takes."""
    ended, budget = pool.estimates.first_round, context.tracker.budget
    limits = (budget.max_reranker_docs, budget.max_reranker_calls)
    if ended is None or stop.reason not in _BUDGET_ENDED or 0 in limits:
        return
    documents, calls = ended()
    failed = any(np.isnan(batch.scores).all() for batch in pool.batches)
    if failed and all(
        limit is None or limit >= needed for limit, needed in zip(limits, (documents, calls), strict=True)
    ):
        return  # the round did not end for want of these
    context.trace.add("controller", FIRST_ROUND, documents=documents, calls=calls)


def too_small(documents: int, calls: int) -> str:
    """A warning about a budget that ended within the policy's first round, which takes so much."""
    return (
        "budget ended within the policy's first round, so that the ranking rests on part of it; the smallest useful "
        f"budget is {documents} documents in {calls} calls"
    )


def _explained(
    stop: StopRecord, pool: CandidatePool, context: RAGtuneContext, pricer: Pricer, book: BatchBook
) -> StopRecord:
    """A scheduler's stop with what it cannot see: the account that binds, or why a strategy is closed."""
    details = plain(stop.details)
    strategy, doc_id = details.get("strategy"), details.get("doc_id")
    if stop.reason == STRATEGY_CLOSED:
        return _closed(str(strategy), book)
    message = stop.message
    asks = stop.reason == BUDGET_EXHAUSTED and not message and strategy is not None and doc_id in pool
    if asks and (short := context.tracker.shortfall(pricer([doc_id], strategy))):
        details, message = {**details, **short.figures()}, short.in_words()
    return stop.model_copy(update={"details": details, "message": message})


def _closed(strategy: str, book: BatchBook) -> StopRecord:
    error = book.closed.get(strategy, "")
    return StopRecord(
        reason=STRATEGY_CLOSED,
        source="controller",
        details={"strategy": strategy, "error": error, "failed": book.failed, "sent": book.sent},
        message=f"strategy {strategy!r} is not tried again for now; first error: {error}",
    )


def _failure(source: str, error: Exception) -> StopRecord:
    return StopRecord(reason=f"{source}_failed", source=source, details={"error": describe(error)})
