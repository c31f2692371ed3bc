"""What graph-based adaptive reranking shares: batches by turns from the initial ranking and a neighbour queue."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np

from ragtune.core.arrays import FloatArray, IntArray
from ragtune.core.interfaces import BaseEstimator, TextVectors
from ragtune.core.policy.scaling import first_stage_scores
from ragtune.core.pool.columns import read_only
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.pool.valuation import Valuation
from ragtune.core.request.context import RAGtuneContext
from ragtune.data.corpus import Corpus
from ragtune.estimators.graph._neighbours import Neighbours, neighbours_by


class AlternationState(ABC):
    """One request: how many batches it has had, and which source the next one is taken from.

    Args:
        neighbours: which documents of the pool are near each other.
    """

    def __init__(self, neighbours: Neighbours) -> None:
        self.neighbours = neighbours
        self._observed = 0
        self._next_turn = 0
        self._turn = 0

    def observe(self, pool: CandidatePool) -> None:
        """Pass the turn on for every batch that was sent since the last call."""
        if new := len(pool.batches) - self._observed:
            self._observed += new
            self._next_turn = self._turn + new

    def order(self, pool: CandidatePool, context: RAGtuneContext) -> tuple[IntArray, int]:
        """Eligible positions, best first, where the first mention of one counts, and how many of them are the source's
        whose turn it is.
        """
        eligible = pool.eligible
        sources = (eligible[~pool.discovered[eligible]], self.queue(pool, context))
        # A source that has run dry is passed over; it is asked anew as long as the batch has not been taken.
        self._turn = self._next_turn if len(sources[self._next_turn % 2]) else self._next_turn + 1
        current, other = sources[self._turn % 2], sources[(self._turn + 1) % 2]
        return np.concatenate([current, other, eligible]), len(current)

    @abstractmethod
    def queue(self, pool: CandidatePool, context: RAGtuneContext) -> IntArray:
        """Eligible positions that the graph leads to, best first."""


State = TypeVar("State", bound=AlternationState)


class AlternatingEstimator(BaseEstimator, Generic[State]):
    """Base of GAR and Quam.

    Args:
        corpus: collection that ``vectors`` and ``graph`` are made from.
        vectors: makes the text vectors of the corpus; used where there is no graph.
        k: neighbours of a document.
        graph: folder of a corpus graph; None takes the k nearest documents of the pool by text.
    """

    reads_files = ("graph",)

    def __init__(
        self, corpus: Corpus, vectors: Callable[[Corpus], TextVectors], k: int = 16, graph: str | None = None
    ) -> None:
        self._neighbours = neighbours_by(corpus, vectors, k, graph)
        self.k = k

    def value(self, pool: CandidatePool, context: RAGtuneContext) -> Valuation:
        state = self._state(context)
        state.observe(pool)
        order, current = state.order(pool, context)
        acquisition: FloatArray = np.zeros(len(pool))
        acquisition[order[::-1]] = np.arange(1, len(order) + 1) / max(1, len(order))  # of several, the last one stays
        return pool.valuation(
            first_stage_scores(pool), acquisition=read_only(acquisition), batch_limit=current if current else None
        )

    def _state(self, context: RAGtuneContext) -> State:
        return context.remember(self, lambda: self._start(self._neighbours()))

    @abstractmethod
    def _start(self, neighbours: Neighbours) -> State:
        """The state of a new request."""
