"""Pool items, their state machine (rules P2 and P7), and batches of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragtune.core.arrays import FloatArray, IntArray
from ragtune.core.hits import Entries, Facts
from ragtune.core.pool.columns import constant, read_only
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.tokens import count_tokens
from ragtune.core.types import ScoredDocument


class ItemState(Enum):
    """Life of a pool item (rule P2)."""

    CANDIDATE = "candidate"
    IN_FLIGHT = "in_flight"
    RERANKED = "reranked"
    DROPPED = "dropped"

    __hash__ = object.__hash__  # a state is one object, and Enum's own hash takes six times as long


TRANSITIONS: Mapping[ItemState, frozenset[ItemState]] = {
    ItemState.CANDIDATE: frozenset({ItemState.IN_FLIGHT, ItemState.DROPPED}),
    ItemState.IN_FLIGHT: frozenset({ItemState.RERANKED, ItemState.DROPPED}),
    ItemState.RERANKED: frozenset({ItemState.DROPPED}),
    ItemState.DROPPED: frozenset(),
}
"""The whole transition table; what is not here raises :class:`IllegalTransitionError`."""

STATES = tuple(ItemState)
CODE = {state: code for code, state in enumerate(STATES)}
"""States by code, and codes by state."""

_AGAIN = {ItemState.IN_FLIGHT: ItemState.RERANKED, ItemState.CANDIDATE: ItemState.IN_FLIGHT}
"""The states from which others are reached beyond the table where documents are compared (rules P3 and F6)."""


@cache
def origins(target: ItemState, again: bool) -> NDArray[np.bool_]:
    """By code, whether ``target`` is reached from a state; ``again`` where documents may be sent more than once."""
    return np.array([target in TRANSITIONS[state] or (again and _AGAIN.get(target) is state) for state in STATES])


@dataclass(frozen=True)
class PoolItem:
    """One candidate as it stands now: a snapshot, identified by ``doc_id`` (rule P7).

    Attributes:
        sources: provenance, ``{source: score on that source's scale}``.
        initial_rank: 0-based rank from the first retriever; the first tie-breaker.
        retrieval_score: the first stage's score, after fusion where there was one.
        fusion_score: the score of that fusion, if any.
        priority_value: the estimator's latest estimate in [0, 1].
        reranker_score: calibrated relevance in [0, 1] where reranked.
        posterior: final ranking key after all evidence, where the estimator gives one.

    Examples:
        >>> from ragtune.core.pool.items import PoolItem
        >>> PoolItem("d1", "green tea", retrieval_score=7.4).state.value
        'candidate'
    """

    doc_id: str
    content: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    state: ItemState = ItemState.CANDIDATE
    sources: dict[str, float] = field(default_factory=dict)
    initial_rank: int = 0
    retrieval_score: float = 0.0
    fusion_score: float | None = None
    token_count: int = 0
    priority_value: float = 0.0
    reranker_score: float | None = None
    reranker_strategy: str | None = None
    posterior: float | None = None

    @classmethod
    def from_document(cls, doc: ScoredDocument, initial_rank: int, sources: dict[str, float]) -> PoolItem:
        """A retrieved document as a new candidate."""
        return PoolItem(
            doc.id,
            doc.content,
            dict(doc.metadata),
            sources=sources,
            initial_rank=initial_rank,
            retrieval_score=float(doc.score),
            fusion_score=doc.fusion_score,
            token_count=tokens_of(doc),
        )

    def final_score(self) -> float:
        """Precedence (rule O2): reranker score, else a positive priority, else the best source score."""
        if self.reranker_score is not None:
            return self.reranker_score
        if self.priority_value > 0:
            return self.priority_value
        return max(self.sources.values()) if self.sources else 0.0


def tokens_of(facts: Facts | ScoredDocument | PoolItem) -> int:
    """Tokens of a document, counted where its source did not tell them."""
    return facts.token_count or count_tokens(facts.content)


tie_key = attrgetter("initial_rank", "doc_id")
"""What breaks ties, ascending (rule O4)."""


class SentBatch(NamedTuple):
    """One batch as it was sent: positions and scores of shape (b,), NaN where the reranker said nothing (yet)."""

    strategy: str
    positions: IntArray
    scores: FloatArray

    @classmethod
    def of(cls, strategy: str, positions: IntArray) -> SentBatch:
        return cls(strategy, read_only(positions), constant(len(positions), np.nan))


class RerankBatch(NamedTuple):
    """The documents that one request asks to have scored next, by the reranker of that strategy.

    Examples:
        >>> from ragtune.core.pool.items import PoolItem, RerankBatch
        >>> RerankBatch([PoolItem("d1"), PoolItem("d2")], context=None).strategy
        'default'
    """

    items: Sequence[PoolItem]
    context: RAGtuneContext
    strategy: str = "default"


def facts_of(items: Sequence[PoolItem]) -> Sequence[Facts | PoolItem]:
    """Content and metadata of each document; makes no item where they are known as columns."""
    if isinstance(items, Entries) and items.all_facts is not None:
        return [items.all_facts[i] for i in items.places.tolist()]
    return items


def ids_of(items: Sequence[PoolItem]) -> Sequence[str]:
    """Ids of a batch's documents; makes no item where the batch holds columns."""
    return items.doc_ids if isinstance(items, Entries) else [item.doc_id for item in items]


def lengths_of(items: Sequence[PoolItem]) -> list[int]:
    """Tokens of each document of a batch; makes no item where the batch holds columns."""
    return items.token_counts if isinstance(items, Entries) else [*map(tokens_of, items)]


def some_of(items: Sequence[PoolItem], places: Sequence[int]) -> Sequence[PoolItem]:
    """Those of a batch's documents at these places; makes no item where the batch holds columns."""
    return items.some(places) if isinstance(items, Entries) else [items[place] for place in places]
