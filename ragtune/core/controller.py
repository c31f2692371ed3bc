"""The controller: sole owner of the budget and of state transitions (rules P4 and S4)."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

from ragtune.core.arguments import check_count
from ragtune.core.batches.failures import FailurePolicy
from ragtune.core.batches.runner import BatchRequests
from ragtune.core.component import Component, RerankerFacts
from ragtune.core.drivers import alone, lockstep
from ragtune.core.errors import ConfigError, InputError
from ragtune.core.interfaces import (
    BaseAssembler,
    BaseEstimator,
    BaseExpander,
    BaseReformulator,
    BaseReranker,
    BaseRetriever,
    BaseScheduler,
)
from ragtune.core.loop import RerankLoop
from ragtune.core.output import BudgetForks, ControllerOutput, RunState, assembled
from ragtune.core.passages import PassagePool
from ragtune.core.plain import describe, quoted
from ragtune.core.policy.batching import objection
from ragtune.core.pool.ordering import Ordering
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.clock import Clock, MonotonicClock, VirtualClock
from ragtune.core.request.context import RAGtuneContext, Request
from ragtune.core.request.trace import ControllerTrace
from ragtune.core.rounds import RetrievalDepths, RetrievalRounds, aggregate
from ragtune.core.types import CostObject, ScoredDocument, StopRecord
from ragtune.core.units import LIMITS


class RAGtuneController:
    """Retrieval rounds -> candidate pool -> rerank loop -> assembly, under one hard budget.

    Args:
        retriever: the first stage.
        reformulator: further views of the query; :class:`~ragtune.reformulators.identity.IdentityReformulator`
            for none.
        estimator: values the pool.
        scheduler: chooses batches.
        reranker: the expensive scorer, or several by strategy name (the first is the default strategy).
        assembler: builds the context and decides the final order.
        budget: limits of each request, unless ``run`` overrides them.
        expander: brings new documents into the pool between batches; None for none.
        plan: depths of the retrieval rounds.
        clock_factory: makes the clock of a request; by default virtual if every reranker's time is recorded, else
            monotonic.
        seed: root of all randomness.
        failures: how long a failing reranker is tried, and what becomes of documents that it could not score; the
            defaults of :class:`~ragtune.core.batches.failures.FailurePolicy` if None.
        passages: splits long documents into passages, which are scheduled, scored and counted in their place
            (:class:`~ragtune.embedders.passages.Passages`); None for whole documents.

    Raises:
        ConfigError: if no reranker is given, the assembler names an unknown ordering, or the estimator cannot use what
            the scheduler sends.

    Examples:
        >>> from ragtune import CostBudget, RAGtuneController, ScoredDocument
        >>> from ragtune.assemblers.greedy import GreedyAssembler
        >>> from ragtune.estimators.baseline import BaselineEstimator
        >>> from ragtune.reformulators.identity import IdentityReformulator
        >>> from ragtune.rerankers.function import FunctionReranker
        >>> from ragtune.retrievers.in_memory import InMemoryRetriever
        >>> from ragtune.schedulers.greedy import GreedyScheduler
        >>> found = {"bread": 2.0, "tea": 1.0}
        >>> documents = [ScoredDocument(id=text, content=text, score=score) for text, score in found.items()]
        >>> controller = RAGtuneController(
        ...     InMemoryRetriever(documents), IdentityReformulator(), BaselineEstimator(),
        ...     GreedyScheduler(batch_size=2),
        ...     FunctionReranker(lambda query, texts: [float(text in query) for text in texts]), GreedyAssembler(),
        ...     CostBudget.unlimited(),
        ... )
        >>> controller.run("green tea").ranking
        ('tea', 'bread')
    """

    def __init__(
        self,
        retriever: BaseRetriever,
        reformulator: BaseReformulator,
        estimator: BaseEstimator,
        scheduler: BaseScheduler,
        reranker: BaseReranker | Mapping[str, BaseReranker],
        assembler: BaseAssembler,
        budget: CostBudget,
        expander: BaseExpander | None = None,
        plan: RetrievalDepths | None = None,
        clock_factory: Callable[[], Clock] | None = None,
        seed: int = 0,
        failures: FailurePolicy | None = None,
        passages: Any = None,
    ) -> None:
        rerankers = dict(reranker) if isinstance(reranker, Mapping) else {"default": reranker}
        if not rerankers:
            raise ConfigError("no reranker given: name at least one strategy (the noop reranker scores nothing)")
        for each in rerankers.values():
            if not isinstance(each.facts, RerankerFacts):
                raise ConfigError(f"{type(each).__name__}.facts={quoted(each.facts)}: allowed is a RerankerFacts")
        if why := objection(estimator, scheduler):
            raise ConfigError(f"{type(estimator).__name__} with {type(scheduler).__name__}: {why}")
        if not isinstance(passages, Component | None):
            raise ConfigError(f"passages={quoted(passages)}: allowed is a ragtune.embedders.passages.Passages")
        if passages is not None and (
            (expander is not None and expander.is_active)
            or scheduler.sends_again
            or any(each.facts.compares for each in rerankers.values())
        ):
            raise ConfigError(
                "passages: allowed without an expander, with rerankers that give scores and policies that do, such as "
                "uncertainty, settled, early_stop, gate and fixed_depth"
            )
        self.rounds = RetrievalRounds(retriever, reformulator, plan or RetrievalDepths(), tuple(rerankers.values()))
        ordering = Ordering.parse(assembler.ordering)
        self.loop = RerankLoop(estimator, scheduler, rerankers, ordering, expander, failures or FailurePolicy())
        self.rerankers = rerankers
        self.assembler = assembler
        self.default_budget = budget
        self.seed = seed
        simulated = all(r.facts.simulates_time for r in rerankers.values())
        policy = (retriever, reformulator, estimator, scheduler)
        self._parts: tuple[Any, ...] = (*policy, *rerankers.values(), assembler, expander, passages)
        self.passages: Any = passages
        self._is_prepared = False
        self._reads_budget = False
        self._make_clock = clock_factory or (VirtualClock if simulated else MonotonicClock)

    def prepare(self) -> None:
        """Make every part ready, so that no request's clock sees a model being loaded; the first request does it, too.

        Raises:
            InputError: if a part cannot be made ready, e.g. a model that is not there.
        """
        with _PREPARING:
            if self._is_prepared:
                return
            for part in filter(None, self._parts):
                try:
                    part.prepare()
                except InputError:
                    raise
                except Exception as error:
                    raise ConfigError(f"{type(part).__name__} cannot be made ready: {describe(error)}") from error
            self._is_prepared = True

    def forget_failures(self) -> None:
        """Begin a new run: strategies that an earlier one gave up are tried again."""
        self.loop.batches.forget_failures()

    @property
    def closed(self) -> dict[str, str]:
        """The strategies that are not tried at present because they failed (rule F3), and why."""
        return self.loop.batches.closed

    def run(
        self,
        query: str,
        override_budget: CostBudget | None = None,
        *,
        query_id: str | None = None,
        candidates: Sequence[ScoredDocument] = (),
    ) -> ControllerOutput:
        """Answer one query.

        Args:
            query: the user's text.
            override_budget: limits for this request only.
            query_id: stable id; by default a digest of the query.
            candidates: documents found already, for a retriever that hands out what it is given.

        Raises:
            InputError: on unusable input, e.g. a score table that lacks a pair.
            RetrievalError: if the original retrieval fails. Whatever fails later degrades and is traced.
        """
        self.prepare()
        return alone(self._answer(Request(query, query_id, override_budget, candidates)), self.rerankers)

    def run_under(self, request: Request, budgets: Sequence[CostBudget]) -> list[ControllerOutput]:
        """Answer one query under several budgets.

        Every answer is the one that :meth:`run` gives under that budget. Where the budgets differ in
        ``max_reranker_docs`` or ``max_reranker_calls`` alone, they share all decisions before a limit binds, so that
        they take little more time than the largest one. Where a part looks at the limits or at what is left of them,
        each budget is replayed by itself. What a part remembers (``context.remember``) must survive ``copy.deepcopy``.

        Args:
            request: the request, whose own budget is not used.
            budgets: at least one.

        Returns:
            One output a budget, in their order. Errors are those of :meth:`run`.
        """
        unit = _differing_unit(budgets)
        self.prepare()
        if unit is not None and self.shares_budgets:
            limits = {budget: getattr(budget, LIMITS[unit]) for budget in budgets}
            allowed = {budget: inf if limit is None else limit for budget, limit in limits.items()}
            largest = max(allowed, key=allowed.__getitem__)
            forks = BudgetForks((budget for budget in allowed if allowed[budget] < allowed[largest]), unit)
            output = alone(self._answer(replace(request, budget=largest), forks), self.rerankers)
            if not forks.saw_reader:
                return [forks.outputs.get(budget, output) for budget in budgets]
            self._reads_budget = True
        return [alone(self._answer(replace(request, budget=each)), self.rerankers) for each in budgets]

    @property
    def shares_budgets(self) -> bool:
        """Whether :meth:`run_under` shares decisions: all scores are recorded, and no part has looked at the budget."""
        return not self._reads_budget and all(reranker.facts.is_recorded for reranker in self.rerankers.values())

    def run_many(self, requests: Iterable[Request], width: int = 32) -> list[ControllerOutput]:
        """Answer many queries, ``width`` of them in lockstep: what they want scored next goes into one model call.

        Every request gets the answer that :meth:`run` gives it, as far as the reranker gives a document the same score
        in whatever company. The time of a joint call passes for all requests that are part of it.

        Args:
            requests: the requests.
            width: requests under way at once, >= 1.

        Returns:
            One output a request, in their order. An error of any request, see :meth:`run`, ends all.
        """
        check_count("width", width, low=1)
        self.prepare()
        return lockstep((self._answer(request) for request in requests), self.rerankers, width)

    def _answer(self, request: Request, forks: BudgetForks | None = None) -> BatchRequests[ControllerOutput]:
        """The answer under the request's budget; those under smaller budgets are the outputs of the forks."""
        context = self._open(request)
        rounds = self.rounds.run(context)
        paid = context.meter.actual
        pool = aggregate(rounds)
        context.trace.add("controller", "pool", size=len(pool), rounds=[r.strategy for r in rounds])
        if self.passages is not None:
            pool = self.passages.split(pool, context)
        state = RunState(pool, context, [], self.loop.batches.open_book(), forks or BudgetForks())
        stop = yield from self.loop.run(state)
        for budget, (own, ended) in state.forks.ended.items():
            state.forks.outputs[budget] = self._output(own, ended, paid)
        return self._output(state, stop, paid)

    def _output(self, state: RunState, stop: StopRecord, paid: CostObject) -> ControllerOutput:
        pool, context, history, book, _ = state
        dropped, reading = book.dropped, None
        if isinstance(pool, PassagePool):
            reading = pool.read(history[-1], dropped)
            history, pool, dropped = list(map(pool.folded, history)), reading.documents, reading.dropped
        documents = assembled(self.assembler, pool, history[-1].keys, context)
        return ControllerOutput.model_construct(
            query=context.query,
            query_id=context.query_id,
            documents=documents,
            trace=context.trace,
            final_budget_state=context.tracker.snapshot(),
            history=history,
            stop=stop,
            actual_cost=paid + book.actual_cost,
            dropped=dropped,
            batches=book.count,
            reading=reading,
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_is_prepared": False}  # models do not travel

    def _open(self, request: Request) -> RAGtuneContext:
        query = _utf8("query", request.query)
        query_id = request.query_id or hashlib.sha256(query).hexdigest()[:16]
        _utf8("query_id", query_id)
        clock = self._make_clock()
        trace = ControllerTrace(query_id=query_id, clock=clock)
        return RAGtuneContext(
            query=request.query,
            query_id=query_id,
            tracker=(request.budget or self.default_budget).create_tracker(trace, clock),
            seed=self.seed,
            candidates=request.candidates,
        )


_PREPARING = threading.RLock()
"""Requests of several threads that come first wait for one of them to make everything ready."""


def _differing_unit(budgets: Sequence[CostBudget]) -> str | None:
    """The unit in which alone they differ; None if they differ in more, or in a unit that a batch is not counted in."""
    others = {unit: {budget.model_copy(update={LIMITS[unit]: 0}) for budget in budgets} for unit in ("docs", "calls")}
    return next((unit for unit, distinct in others.items() if len(distinct) == 1), None)


def _utf8(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except (AttributeError, UnicodeEncodeError):  # half of a surrogate pair can't be written down
        raise InputError(f"{name} {quoted(text)}: allowed is a text of valid Unicode") from None
