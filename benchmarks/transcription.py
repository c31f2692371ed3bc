"""The loop of rule S4 in the plainest Python: one mutable Pydantic item a candidate, Python loops, dicts, sorted().

It is the yardstick of ``bench_controller.py``: what the core must decide alike and do faster. Only what the pseudo-code
leaves open is added: the baseline estimator, a greedy scheduler with the tie-breaking key, and the budget's view.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from pydantic import BaseModel

from ragtune import ScoredDocument


class ItemState(Enum):
    CANDIDATE = "candidate"
    IN_FLIGHT = "in_flight"
    RERANKED = "reranked"
    DROPPED = "dropped"


class IllegalTransitionError(Exception):
    pass


class PoolItem(BaseModel):
    doc_id: str
    content: str
    metadata: dict[str, Any]

    state: ItemState = ItemState.CANDIDATE

    sources: dict[str, float]
    initial_rank: int

    priority_value: float = 0.0
    reranker_score: float | None = None
    reranker_strategy: str | None = None

    def final_score(self) -> float:
        if self.reranker_score is not None:
            return self.reranker_score
        if self.priority_value > 0:
            return self.priority_value
        return max(self.sources.values()) if self.sources else 0.0


class CandidatePool:
    def __init__(self, items: Sequence[PoolItem]) -> None:
        self._items = {item.doc_id: item for item in items}

    def transition(self, doc_ids: list[str], target: ItemState) -> None:
        allowed = {
            ItemState.CANDIDATE: (ItemState.IN_FLIGHT, ItemState.DROPPED),
            ItemState.IN_FLIGHT: (ItemState.RERANKED, ItemState.DROPPED),
        }
        for did in doc_ids:
            item = self._items[did]
            if target not in allowed.get(item.state, ()):
                raise IllegalTransitionError(did)
            item.state = target

    def update_scores(self, scores: dict[str, float], strategy: str) -> None:
        for did, score in scores.items():
            item = self._items[did]
            if item.state != ItemState.IN_FLIGHT:
                raise IllegalTransitionError(did)
            item.reranker_score = score
            item.reranker_strategy = strategy
            item.state = ItemState.RERANKED

    def apply_priorities(self, priorities: dict[str, float]) -> None:
        for did, value in priorities.items():
            self._items[did].priority_value = value

    def get_items(self, doc_ids: list[str]) -> list[PoolItem]:
        return [self._items[did] for did in doc_ids]

    def get_active_items(self) -> list[PoolItem]:
        return [it for it in self._items.values() if it.state in (ItemState.CANDIDATE, ItemState.RERANKED)]


class CostObject(BaseModel):
    tokens: int = 0
    docs: int = 0
    calls: int = 0


class RemainingBudgetView(BaseModel):
    remaining_tokens: int
    remaining_rerank_docs: int
    remaining_rerank_calls: int
    assembly_token_buffer: int


class BatchProposal(BaseModel):
    doc_ids: list[str]
    strategy: str
    expected_cost: CostObject


class CostTracker:
    def __init__(self, max_tokens: int, max_rerank_docs: int, max_rerank_calls: int) -> None:
        self.tokens, self.docs, self.calls = max_tokens, max_rerank_docs, max_rerank_calls

    def is_exhausted(self) -> bool:
        return self.docs <= 0 or self.calls <= 0 or self.tokens <= 0

    def remaining_view(self) -> RemainingBudgetView:
        return RemainingBudgetView(
            remaining_tokens=self.tokens,
            remaining_rerank_docs=self.docs,
            remaining_rerank_calls=self.calls,
            assembly_token_buffer=0,
        )

    def consume(self, cost: CostObject) -> None:
        self.tokens -= cost.tokens
        self.docs -= cost.docs
        self.calls -= cost.calls


def eligible_items(pool: CandidatePool) -> list[PoolItem]:
    """What may be scheduled, through the pool's interface as rules P1 to P6 give it."""
    return [it for it in pool.get_active_items() if it.state == ItemState.CANDIDATE]


def baseline_value(pool: CandidatePool) -> dict[str, float]:
    """Rule S6: ``priority_value = retrieval_score``."""
    return {item.doc_id: max(item.sources.values()) for item in eligible_items(pool)}


def select_batch(pool: CandidatePool, budget: RemainingBudgetView, batch_size: int) -> BatchProposal | None:
    """The best candidates by priority, stable under ties by ``initial_rank``, then ``doc_id``."""
    best_first = sorted(eligible_items(pool), key=lambda it: (-it.priority_value, it.initial_rank, it.doc_id))
    batch = [item.doc_id for item in best_first[: min(batch_size, budget.remaining_rerank_docs)]]
    if not batch:
        return None
    return BatchProposal(doc_ids=batch, strategy="default", expected_cost=CostObject(docs=len(batch), calls=1))


def run(
    documents: Sequence[ScoredDocument],
    rerank: Callable[[list[PoolItem]], dict[str, float]],
    batch_size: int,
    budget: int,
) -> tuple[list[list[str]], list[str]]:
    """Rule S4. Returns the batches in order, and the final order of all active documents."""
    return drain(make_pool(documents), rerank, batch_size, budget)


def make_pool(documents: Sequence[ScoredDocument]) -> CandidatePool:
    """``retriever.retrieve_pool``."""
    return CandidatePool(
        [
            PoolItem(
                doc_id=doc.id,
                content=doc.content,
                metadata=doc.metadata,
                sources={"original": doc.score},
                initial_rank=rank,
            )
            for rank, doc in enumerate(documents)
        ]
    )


def drain(
    pool: CandidatePool, rerank: Callable[[list[PoolItem]], dict[str, float]], batch_size: int, budget: int
) -> tuple[list[list[str]], list[str]]:
    """The loop, and the final order."""
    tracker = CostTracker(max_tokens=budget, max_rerank_docs=budget, max_rerank_calls=budget)
    batches = []
    while not tracker.is_exhausted():
        pool.apply_priorities(baseline_value(pool))
        proposal = select_batch(pool, tracker.remaining_view(), batch_size)
        if not proposal:
            break
        pool.transition(proposal.doc_ids, ItemState.IN_FLIGHT)
        batches.append(proposal.doc_ids)
        try:
            pool.update_scores(rerank(pool.get_items(proposal.doc_ids)), strategy=proposal.strategy)
            tracker.consume(proposal.expected_cost)
        except Exception:
            pool.transition(proposal.doc_ids, ItemState.DROPPED)
    active = sorted(pool.get_active_items(), key=lambda it: (-it.final_score(), it.initial_rank, it.doc_id))
    return batches, [item.doc_id for item in active]
