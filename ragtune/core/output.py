"""What the controller hands back, and the state of a request from which it is made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, field_serializer

from ragtune.core.arrays import FloatArray, IntArray
from ragtune.core.batches.failures import BatchBook, BatchCount
from ragtune.core.errors import InputError
from ragtune.core.hits import Entries, sound
from ragtune.core.interfaces import BaseAssembler
from ragtune.core.plain import describe
from ragtune.core.pool.columns import PoolColumns
from ragtune.core.pool.items import PoolItem
from ragtune.core.pool.ordering import Ordering, RankingKeys, best_that_fit, documents_at
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.request.trace import ControllerTrace
from ragtune.core.tokens import count_tokens
from ragtune.core.types import CostObject, Listed, ScoredDocument, StopRecord
from ragtune.core.units import LIMITS


@dataclass(eq=False)
class HistoryStep:
    """State after a batch: the cost so far and the ranking that stopping here would give, made when asked for."""

    amounts: tuple[float, ...]  # charged so far, in each of UNITS; ``latency_ms`` is the time elapsed
    doc_ids: tuple[str, ...]
    ordering: Ordering
    columns: PoolColumns

    @property
    def cost(self) -> CostObject:
        return CostObject.of(self.amounts)

    @cached_property
    def keys(self) -> RankingKeys:
        return self.ordering.keys_at(self.columns)

    @cached_property
    def ranking(self) -> tuple[str, ...]:
        return tuple(self.doc_ids[i] for i in self.keys.argsort())


def rankings_of(steps: Sequence[HistoryStep]) -> list[IntArray] | IntArray:
    """The ranking of each step, as positions in its ``doc_ids``, best first; as one array if the pool did not grow."""
    first, *others = steps
    same = all(len(step.doc_ids) == len(first.doc_ids) and step.ordering is first.ordering for step in others)
    if not same or len(steps[-1].columns.active) < len(first.doc_ids):
        return [step.keys.argsort() for step in steps]
    numbers = ("scores", "priorities", "base_scores", "posteriors")
    keys = first.ordering.keys_of(*(_stacked([getattr(step.columns, name) for step in steps]) for name in numbers))
    orders = (-keys).argsort(axis=-1, kind="stable")
    return orders if len(orders) == len(steps) else orders.repeat(len(steps), axis=0)


def _stacked(columns: Sequence[FloatArray]) -> FloatArray:
    return np.array(columns if any(column is not columns[0] for column in columns) else columns[:1])


class ControllerOutput(BaseModel):
    """The result of one request (rule A3).

    Attributes:
        documents: the assembled context, best first, within the token budget.
        trace: every decision.
        final_budget_state: the account at the end, by unit.
        history: the anytime history: step 0 is before any batch, then one step a batch.
        stop: why the loop stopped.
        actual_cost: cost that this run really paid (0 under replay).
        dropped: documents whose score was lost, with the reason; they are ranked like others without a score.
        batches: how many batches were sent, and how many failed.
        reading: what was read of documents in passages (:class:`~ragtune.core.passages.Reading`); None of whole ones.

    Examples:
        >>> from ragtune import CostBudget, RAGtuneController, ScoredDocument
        >>> from ragtune.assemblers.greedy import GreedyAssembler
        >>> from ragtune.estimators.baseline import BaselineEstimator
        >>> from ragtune.reformulators.identity import IdentityReformulator
        >>> from ragtune.rerankers.noop import NoOpReranker
        >>> from ragtune.retrievers.in_memory import InMemoryRetriever
        >>> from ragtune.schedulers.greedy import GreedyScheduler
        >>> documents = [ScoredDocument(id=name, score=score) for name, score in (("a", 2.0), ("b", 1.0))]
        >>> parts = [InMemoryRetriever(documents), IdentityReformulator(), BaselineEstimator()]
        >>> parts += [GreedyScheduler(batch_size=1), NoOpReranker(), GreedyAssembler()]
        >>> budget = CostBudget.only(max_reranker_docs=1)
        >>> output = RAGtuneController(*parts, budget).run("tea")
        >>> output.ranking, output.final_budget_state["rerank_docs"], output.stop.reason
        (('a', 'b'), 1, 'budget_exhausted')
    """

    query: str
    query_id: str = ""
    documents: Listed
    trace: ControllerTrace
    final_budget_state: dict[str, Any]
    history: list[HistoryStep] = Field(default_factory=list)
    stop: StopRecord
    actual_cost: CostObject = Field(default_factory=CostObject)
    dropped: dict[str, str] = Field(default_factory=dict)
    batches: BatchCount = Field(default_factory=BatchCount)
    reading: Any = Field(default=None, exclude=True)

    model_config = ConfigDict(arbitrary_types_allowed=True)

    @field_serializer("history")
    def _plain_history(self, history: list[HistoryStep]) -> list[dict[str, Any]]:
        return [{"cost": step.cost.model_dump(), "ranking": list(step.ranking)} for step in history]

    @property
    def context_tokens(self) -> int:
        """Tokens of the assembled documents."""
        documents = self.documents
        counts = documents.token_counts if isinstance(documents, Entries) else [doc.token_count for doc in documents]
        return sum(counts)

    @property
    def ranking(self) -> tuple[str, ...]:
        """All documents that take part, best first, before the token budget cuts the list."""
        return self.history[-1].ranking


class BudgetForks:
    """Smaller budgets in ``unit`` (docs or calls) that share the decisions of a request until their limit binds."""

    def __init__(self, budgets: Iterable[CostBudget] = (), unit: str = "docs") -> None:
        self._unit = unit
        self.waiting = sorted(budgets, key=self._allowed)
        self.ended: dict[CostBudget, tuple[RunState, StopRecord]] = {}
        self.outputs: dict[CostBudget, ControllerOutput] = {}
        self.saw_reader = False

    def __len__(self) -> int:
        return len(self.waiting)

    def below(self, cost: CostObject, *, or_at: bool = False) -> list[CostBudget]:
        """Take out the budgets that do not allow ``cost``; with ``or_at``, those that it leaves nothing, too."""
        amount = getattr(cost, self._unit) + or_at
        due = [budget for budget in self.waiting if self._allowed(budget) < amount]
        self.waiting = self.waiting[len(due) :]
        return due

    def _allowed(self, budget: CostBudget) -> int:
        return getattr(budget, LIMITS[self._unit]) or 0


class RunState(NamedTuple):
    """The state of one request in the loop: candidates, account, trace, history and batches."""

    pool: CandidatePool
    context: RAGtuneContext
    history: list[HistoryStep]
    book: BatchBook
    forks: BudgetForks

    def fork(self, budget: CostBudget) -> RunState:
        """A copy of the state under another budget; what happens to either does not reach the other."""
        context = self.context.fork(self.context.tracker.fork(budget))
        pool = self.pool.fork()
        pool.gate = context.tracker.gate
        return RunState(pool, context, list(self.history), self.book.fork(), BudgetForks())


def assembled(
    assembler: BaseAssembler, pool: CandidatePool, keys: RankingKeys, context: RAGtuneContext
) -> Sequence[ScoredDocument]:
    """The request's documents as far as their tokens are paid for, given the pool as it ended and the keys of its last
    ranking; traced. If the assembler fails, the items best first.
    """
    if type(assembler).assemble is BaseAssembler.assemble:  # the same, without an object for each document
        fitting = _what_fits(pool, keys, context)
        context.trace.add("assembler", "assemble", documents=list(fitting.doc_ids))
        return fitting
    items = pool.items_at(keys.positions)
    try:
        with context.tracker.gate:
            documents = list(assembler.assemble(items, context))
        documents = _paid(documents, items, context)
    except InputError:
        raise
    except Exception as error:
        context.trace.add("assembler", "assembly_failed", error=describe(error))
        context.tracker.restart_assembly()
        documents = best_that_fit(assembler.ordering, items, context)
    context.trace.add("assembler", "assemble", documents=[doc.id for doc in documents])
    return documents


def _what_fits(pool: CandidatePool, keys: RankingKeys, context: RAGtuneContext) -> Entries[ScoredDocument]:
    """What :func:`best_that_fit` takes of all of them; no document is made."""
    order = np.argsort(-keys.score, kind="stable")
    positions, pay = keys.positions[order], context.tracker.try_consume_tokens
    tokens = pool.roster.tokens[positions]
    if not pay(int(tokens.sum())):
        order = order[[pay(count) for count in tokens.tolist()]]
        positions = keys.positions[order]
    return documents_at(pool.roster, positions, keys.score[order], pool.scores[positions])


def _paid(documents: list[ScoredDocument], items: Sequence[PoolItem], context: RAGtuneContext) -> list[ScoredDocument]:
    known = {item.doc_id: item for item in (items if documents else ())}
    prepaid = context.tracker.assembled_tokens
    kept: list[ScoredDocument] = []
    for document in map(sound, documents):
        item = known.pop(document.id, None)
        if item is None:
            why = "not in the pool, or given twice"
            context.trace.add("assembler", "refuse_document", doc_id=document.id, why=why)
            continue
        tokens = item.token_count
        if document.content not in ("", item.content):
            tokens = max(document.token_count, count_tokens(document.content))
        owed = max(0, tokens - prepaid)
        if owed and not context.tracker.try_consume_tokens(owed):
            context.trace.add("assembler", "refuse_document", doc_id=document.id, why="over the token budget")
            continue
        prepaid -= tokens - owed
        kept.append(document.model_copy(update={"token_count": tokens}))
    return kept
