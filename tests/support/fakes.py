"""Deterministic components that show what the controller did with them (rule H4): the fixture ``fakes``."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ragtune import CostBudget, RAGtuneController, RetrievalDepths, ScoredDocument
from ragtune.core.interfaces import (
    BaseAssembler,
    BaseEstimator,
    BaseExpander,
    BaseReformulator,
    BaseReranker,
    BaseRetriever,
    BaseScheduler,
)
from ragtune.core.pool.items import PoolItem
from ragtune.core.pool.ordering import Ordering
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import BatchProposal, CostObject, RemainingBudgetView


def docs(n: int, prefix: str = "doc", tokens: int = 10) -> list[ScoredDocument]:
    """``n`` documents, best first, scores falling from 1 in steps of 1/n."""
    return [
        ScoredDocument(id=f"{prefix}_{i:03d}", content=f"text {i}", score=1.0 - i / n, token_count=tokens)
        for i in range(n)
    ]


def pool(n: int) -> CandidatePool:
    return CandidatePool(
        [PoolItem.from_document(doc, rank, {"original": doc.score}) for rank, doc in enumerate(docs(n))]
    )


class Retriever(BaseRetriever):
    """The same documents whatever the query, or a list (or an error to raise) a query."""

    def __init__(self, documents: Sequence[ScoredDocument] | Mapping[str, Any]) -> None:
        self.documents = documents
        self.calls: list[tuple[str, str, int]] = []

    def retrieve(self, context: RAGtuneContext, top_k: int) -> list[ScoredDocument]:
        self.calls.append((context.round, context.query, top_k))
        found = self.documents[context.query] if isinstance(self.documents, Mapping) else self.documents
        if isinstance(found, Exception):
            raise found
        return list(found[:top_k])


class Reformulator(BaseReformulator):
    def __init__(self, rewrites: Any = ()) -> None:
        self.rewrites = rewrites
        self.calls = 0

    def generate(self, context: RAGtuneContext, first_round: Sequence[ScoredDocument]) -> list[str]:
        self.calls += 1
        if isinstance(self.rewrites, Exception):
            raise self.rewrites
        return self.rewrites

    @property
    def is_active(self) -> bool:
        return self.rewrites != ()


class Estimator(BaseEstimator):
    """The retrieval score as far as it lies in [0, 1], or what ``value`` says."""

    def __init__(self, value: Callable[[CandidatePool, RAGtuneContext], Any] | None = None) -> None:
        self._value = value or (lambda pool, context: pool.valuation(np.clip(pool.base_scores, 0.0, 1.0)))

    def value(self, pool: CandidatePool, context: RAGtuneContext) -> Any:
        return self._value(pool, context)


class Scheduler(BaseScheduler):
    """The best ``batch_size`` candidates whether or not the budget affords them, or what ``choose`` says."""

    def __init__(
        self, batch_size: int = 5, choose: Callable[..., Any] | None = None, strategy: str = "default"
    ) -> None:
        self._choose = choose or (
            lambda pool, budget: BatchProposal(doc_ids=pool.top_candidates(batch_size), strategy=strategy)
        )
        self.views: list[RemainingBudgetView] = []

    def select_batch(self, pool: CandidatePool, budget: RemainingBudgetView) -> Any:
        self.views.append(budget)
        return self._choose(pool, budget)


class Reranker(BaseReranker):
    """Turns the first stage's order round, to prove that it ran.

    ``script`` is what each call does, in order, then the default: an error is raised, a callable gets the items,
    anything else is returned.
    """

    def __init__(
        self,
        cost: Callable[[Sequence[PoolItem]], CostObject] | None = None,
        script: Sequence[Any] = (),
        recorded: bool = True,
        act: Callable[[RAGtuneContext], None] | None = None,
    ) -> None:
        self._cost = cost
        self._script = list(script)
        if recorded:
            self.facts = replace(self.facts, is_recorded=True)
        self._act = act
        self.batches: list[list[str]] = []
        self.strategies: list[str] = []

    def rerank(self, items: Sequence[PoolItem], context: RAGtuneContext, strategy: str) -> Any:
        self.batches.append([item.doc_id for item in items])
        self.strategies.append(strategy)
        if self._act is not None:
            self._act(context)
        step = self._script.pop(0) if self._script else _reversing
        if isinstance(step, Exception):
            raise step
        return step(items) if callable(step) else step

    def expected_cost(self, items: Sequence[PoolItem], context: RAGtuneContext) -> CostObject:
        return self._cost(items) if self._cost else super().expected_cost(items, context)


def _reversing(items: Sequence[PoolItem]) -> dict[str, float]:
    return {item.doc_id: (item.initial_rank + 1) / 1000 for item in items}


class Assembler(BaseAssembler):
    """Every document that still fits (rule A1), in the given order."""

    def __init__(self, ordering: Ordering = Ordering.FINAL_SCORE) -> None:
        self.ordering = ordering
        self.seen: list[PoolItem] = []

    def assemble(self, items: Sequence[PoolItem], context: RAGtuneContext) -> list[ScoredDocument]:
        self.seen = list(items)
        return [
            ScoredDocument(id=item.doc_id, score=item.final_score(), token_count=item.token_count)
            for item in self.ordering.sort(items)
            if context.tracker.try_consume_tokens(item.token_count)
        ]


class Expander(BaseExpander):
    def __init__(self, find: Callable[[CandidatePool, int], Any]) -> None:
        self._find = find
        self.limits: list[int] = []

    def expand(self, pool: CandidatePool, context: RAGtuneContext, limit: int) -> Any:
        self.limits.append(limit)
        return self._find(pool, limit)


def controller(**parts: Any) -> RAGtuneController:
    """A controller of fakes: 20 documents, batches of 5, no limits; ``parts`` replace what a test is about."""
    documents = parts.pop("documents", docs(20))
    defaults: dict[str, Any] = {
        "retriever": Retriever(documents),
        "reformulator": Reformulator(),
        "estimator": Estimator(),
        "scheduler": Scheduler(),
        "reranker": Reranker(),
        "assembler": Assembler(),
        "budget": CostBudget.unlimited(),
        "plan": RetrievalDepths(original_query_depth=1000),
    }
    return RAGtuneController(**(defaults | parts))
