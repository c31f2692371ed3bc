"""The iterative loop: estimate, record, schedule, pay, rerank, repeat (0.54 section 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ragtune.core.context import GRAPH_SOURCE, CostMeter, RAGtuneContext
from ragtune.core.errors import InputError
from ragtune.core.interfaces import BaseEstimator, BaseExpander, BaseReranker, BaseScheduler
from ragtune.core.items import ItemState, PoolItem
from ragtune.core.ordering import Ordering
from ragtune.core.output import HistoryStep
from ragtune.core.pool import CandidatePool
from ragtune.core.rounds import require_finite
from ragtune.core.types import FREE, BatchProposal, CostObject, Pricer, ScoredDocument, StopRecord
from ragtune.core.valuation import Valuation


@dataclass
class LoopOutcome:
    """What the loop leaves behind, beside the pool itself."""

    history: list[HistoryStep] = field(default_factory=list)
    stop: StopRecord = field(default_factory=lambda: StopRecord(reason="not_started", source="controller"))
    actual_cost: CostObject = FREE
    dropped: dict[str, str] = field(default_factory=dict)


class RerankLoop:
    """Runs batches until the budget, the pool or the scheduler says stop. Holds no state between requests."""

    def __init__(
        self,
        estimator: BaseEstimator,
        scheduler: BaseScheduler,
        rerankers: Mapping[str, BaseReranker],
        ordering: Ordering,
        expander: BaseExpander | None,
    ) -> None:
        self._estimator = estimator
        self._scheduler = scheduler
        self._rerankers = rerankers
        self._strategies = tuple(rerankers)
        self._ordering = ordering
        self._expander = expander

    def run(self, pool: CandidatePool, context: RAGtuneContext) -> LoopOutcome:
        """Spend the request's budget on the pool."""
        outcome = LoopOutcome()
        stop: StopRecord | None = None
        while stop is None:
            stop = self._estimate(pool, context)
            # Expansion starts from the best of what is known now, so it comes after the scores have been digested.
            if stop is None and outcome.history and self._expand(pool, context):
                stop = self._estimate(pool, context)
            self._record(pool, context, outcome)
            stop = stop or self._step(pool, context, outcome)
        if len(outcome.history) == 1 and stop.reason in ("budget_exhausted", "budget_denied"):
            context.trace.add("controller", "skip_rerank", reason="budget_denied")
        context.trace.add("controller", "stop", reason=stop.reason, source=stop.source, details=stop.details)
        outcome.stop = stop
        return outcome

    # -- one iteration ---------------------------------------------------------------------------------------------

    def _estimate(self, pool: CandidatePool, context: RAGtuneContext) -> StopRecord | None:
        try:
            priorities = self._estimator.value(pool, context)
            pool.apply_priorities(priorities)
        except InputError:
            raise
        except Exception as error:
            return _failure("estimator", error)
        if isinstance(priorities, Valuation) and priorities.diagnostics:
            context.trace.add("estimator", "value", **priorities.diagnostics)
        return None

    def _record(self, pool: CandidatePool, context: RAGtuneContext, outcome: LoopOutcome) -> None:
        outcome.history.append(HistoryStep(context.tracker.spent(), pool.doc_ids, self._ordering, pool.columns()))

    def _step(self, pool: CandidatePool, context: RAGtuneContext, outcome: LoopOutcome) -> StopRecord | None:
        if not len(pool.eligible):
            return StopRecord(reason="pool_exhausted" if len(pool) else "empty_pool", source="controller")
        unit = context.tracker.exhausted_unit()
        if unit is not None:
            return StopRecord(reason="budget_exhausted", source="budget", details=unit)
        proposal = self._propose(pool, context)
        if isinstance(proposal, StopRecord):
            return proposal
        reranker = self._rerankers[proposal.strategy]
        items = pool.get_items(proposal.doc_ids)
        try:
            cost = reranker.expected_cost(items, context)
        except InputError:
            raise
        except Exception as error:
            self._drop(pool, context, outcome, proposal.doc_ids, _describe(error))
            return None
        if not context.tracker.consume(cost):
            denial = context.tracker.denial(cost) or {}
            return StopRecord(reason="budget_denied", source="budget", details=denial)
        self._execute(pool, context, outcome, proposal, reranker, items, cost)
        return None

    def _propose(self, pool: CandidatePool, context: RAGtuneContext) -> BatchProposal | StopRecord:
        view = context.tracker.remaining_view(self._strategies, self._pricer(pool, context))
        try:
            proposal = self._scheduler.select_batch(pool, view)
        except InputError:
            raise
        except Exception as error:
            return _failure("scheduler", error)
        if proposal is None or isinstance(proposal, StopRecord):
            return proposal or StopRecord(reason="no_proposal", source="scheduler")
        if problem := self._objection(pool, proposal):
            return StopRecord(reason="illegal_proposal", source="scheduler", details={"error": problem})
        context.trace.add(
            "scheduler",
            "propose",
            doc_ids=list(proposal.doc_ids),
            strategy=proposal.strategy,
            estimates=pool.priorities[pool.positions(proposal.doc_ids)].tolist(),
            diagnostics=proposal.diagnostics,
        )
        return proposal

    def _objection(self, pool: CandidatePool, proposal: BatchProposal) -> str | None:
        if not isinstance(proposal, BatchProposal):
            return f"a proposal of type {type(proposal).__name__}: allowed is BatchProposal, StopRecord or None"
        if proposal.strategy not in self._rerankers:
            return f"unknown strategy {proposal.strategy!r}: registered are {', '.join(self._rerankers)}"
        if not proposal.doc_ids:
            return "an empty batch: propose at least one document, or stop"
        if len(set(proposal.doc_ids)) != len(proposal.doc_ids):
            return "a document is proposed twice"
        strangers = [doc_id for doc_id in proposal.doc_ids if not pool.is_candidate(doc_id)]
        return f"not CANDIDATE: {strangers}" if strangers else None

    def _execute(
        self,
        pool: CandidatePool,
        context: RAGtuneContext,
        outcome: LoopOutcome,
        proposal: BatchProposal,
        reranker: BaseReranker,
        items: Sequence[PoolItem],
        cost: CostObject,
    ) -> None:
        """Run one paid batch: scores in, or everything DROPPED and refunded (0.54: no retries)."""
        pool.transition(proposal.doc_ids, ItemState.IN_FLIGHT)
        context.meter = CostMeter()
        started_ms = context.tracker.elapsed_ms
        scores: dict[str, float] = {}
        failure: str | None = None
        try:
            returned = reranker.rerank(items, context, proposal.strategy)
            pool.update_scores(returned, proposal.strategy)
            scores = {doc_id: float(score) for doc_id, score in returned.items()}
        except InputError:
            raise
        except Exception as error:
            failure = _describe(error)
        charged = context.meter.charged or cost
        context.tracker.clock.advance(charged.latency_ms)
        outcome.actual_cost = outcome.actual_cost + context.meter.actual
        context.tracker.settle(cost, charged)
        if failure is None:
            context.trace.add("reranker", "rerank", strategy=proposal.strategy, scores=scores)
        else:
            context.tracker.refund(charged)
        self._note_overrun(context, started_ms)
        missing = [doc_id for doc_id in proposal.doc_ids if doc_id not in scores]
        if missing:
            self._drop(pool, context, outcome, missing, failure or "not scored by the reranker")

    def _drop(
        self, pool: CandidatePool, context: RAGtuneContext, outcome: LoopOutcome, doc_ids: Sequence[str], why: str
    ) -> None:
        pool.transition(doc_ids, ItemState.DROPPED)
        context.trace.add("controller", "drop", doc_ids=list(doc_ids), error=why)
        outcome.dropped |= dict.fromkeys(doc_ids, why)

    def _note_overrun(self, context: RAGtuneContext, started_ms: float) -> None:
        limit, now = context.tracker.budget.max_latency_ms, context.tracker.elapsed_ms
        if limit is not None and now > limit:
            context.trace.add("budget", "overrun_latency", limit_ms=limit, elapsed_ms=now, batch_ms=now - started_ms)

    def _expand(self, pool: CandidatePool, context: RAGtuneContext) -> bool:
        """Whether the pool has grown; no document is looked for that no further batch could score."""
        limit = context.tracker.remaining_expansion()
        if self._expander is None or limit == 0 or context.tracker.is_exhausted():
            return False
        behind = pool.entries[-1].initial_rank + 1
        try:
            found = require_finite(self._expander.expand(pool, context, limit))
            new = list(dict.fromkeys(doc.id for doc in found if doc.id not in pool))
            first = {doc.id: doc for doc in reversed(found)}
            items = [_discovery(first[doc_id], behind + i) for i, doc_id in enumerate(new)]
        except InputError:
            raise
        except Exception as error:
            context.trace.add("expander", "expansion_failed", error=_describe(error))
            return False
        if not items or not context.tracker.try_consume_expansion(len(items)):
            return False
        pool.add(items)
        context.trace.add("expander", "expand", doc_ids=new)
        return True

    def _pricer(self, pool: CandidatePool, context: RAGtuneContext) -> Pricer:
        def price(doc_ids: Sequence[str], strategy: str) -> CostObject:
            return self._rerankers[strategy].expected_cost(pool.get_items(doc_ids), context)

        return price


def _failure(source: str, error: Exception) -> StopRecord:
    return StopRecord(reason=f"{source}_failed", source=source, details={"error": _describe(error)})


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _discovery(doc: ScoredDocument, initial_rank: int) -> PoolItem:
    return PoolItem.from_document(doc, initial_rank, dict(doc.sources) or {GRAPH_SOURCE: float(doc.score)})
