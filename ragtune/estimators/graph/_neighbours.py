"""Neighbours of a document inside a pool: by a corpus graph, or by the texts of the pool alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, Self

import numpy as np

from ragtune.core.arguments import check_count, check_vectors
from ragtune.core.arrays import FloatArray, IntArray, dense
from ragtune.core.component import declare_files
from ragtune.core.interfaces import BaseEstimator, TextVectors
from ragtune.core.pool.columns import read_only
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.pool.valuation import Valuation
from ragtune.core.request.context import RAGtuneContext
from ragtune.data.corpus import Corpus, best_positions
from ragtune.data.graph import CorpusGraph

MakeVectors = Callable[[Corpus], TextVectors]
"""Makes the text vectors of a corpus."""


class Edges(NamedTuple):
    """Pool positions of a document's neighbours with their weights, nearest first."""

    positions: list[int]
    weights: list[float]


@dataclass(eq=False)
class Neighbours(ABC):
    """Neighbours among the documents of one request's pool; remembered until growth of the pool may change them."""

    _edges: dict[int, Edges] = field(default_factory=dict, init=False)
    _size: int = field(default=0, init=False)

    def __deepcopy__(self, memo: Any) -> Self:
        return copy(self)  # graph and vectors are the collection's, and what was made for a pool is never changed

    def of(self, pool: CandidatePool, positions: Sequence[int]) -> list[Edges]:
        if len(pool) != self._size:
            self._edges, self._size = self._grown(pool), len(pool)
        if unknown := [position for position in positions if position not in self._edges]:
            self._edges = self._edges | dict(zip(unknown, self._find(unknown), strict=True))
        return [self._edges[position] for position in positions]

    @abstractmethod
    def _grown(self, pool: CandidatePool) -> dict[int, Edges]:
        """Get ready for a pool that is larger than before; the known edges that its new documents cannot change."""

    @abstractmethod
    def _find(self, positions: Sequence[int]) -> list[Edges]: ...


@dataclass(eq=False)
class GraphNeighbours(Neighbours):
    graph: CorpusGraph

    def _grown(self, pool: CandidatePool) -> dict[int, Edges]:
        self._in_corpus = self.graph.positions(pool.doc_ids)
        self._places = {position: place for place, position in enumerate(self._in_corpus)}
        return {place: edges for place, edges in self._edges.items() if len(edges.positions) == self.graph.k}

    def _find(self, positions: Sequence[int]) -> list[Edges]:
        rows = self.graph.rows([self._in_corpus[place] for place in positions])
        found, places = [], self._places
        for neighbours, weights in zip(*(array.tolist() for array in rows), strict=True):
            held = [(places[i], weight) for i, weight in zip(neighbours, weights, strict=True) if i in places]
            found.append(Edges([place for place, _ in held], [weight for _, weight in held]))
        return found


@dataclass(eq=False)
class TextNeighbours(Neighbours):
    """The k documents of the pool with the highest positive text cosine, equal ones in the pool's order."""

    vectors: TextVectors
    k: int

    def _grown(self, pool: CandidatePool) -> dict[int, Edges]:
        self._rows = self.vectors.of(pool.entries)
        return {}

    def _find(self, positions: Sequence[int]) -> list[Edges]:
        found = []
        for position, cosines in zip(positions, dense(self._rows[list(positions)] @ self._rows.T), strict=True):
            cosines[position] = 0.0
            best = best_positions(cosines, np.arange(len(cosines)), self.k, above=0.0)
            found.append(Edges(best.tolist(), cosines[best].tolist()))
        return found


def joined(edges: Sequence[Edges]) -> tuple[IntArray, FloatArray, IntArray]:
    """The edges of several documents in one: where each leads to, its weight, and which of the documents it is of."""
    of = np.repeat(np.arange(len(edges)), [len(one.positions) for one in edges])
    to = np.fromiter(chain.from_iterable(one.positions for one in edges), np.intp, len(of))
    return to, np.fromiter(chain.from_iterable(one.weights for one in edges), float, len(of)), of


@declare_files(reads=["graph"])
class GraphEstimator(BaseEstimator):
    """Base of estimators that follow a graph of similar documents: a folder, or None for the k nearest by text."""

    def __init__(self, corpus: Corpus, vectors: MakeVectors, k: int = 16, graph: str | None = None) -> None:
        self.k = check_count("estimator.k", k, low=1)
        self._neighbours: Callable[[], Neighbours] = (  # of a new request
            partial(TextNeighbours, check_vectors("estimator.vectors", vectors)(corpus), k)
            if graph is None
            else partial(GraphNeighbours, CorpusGraph.open(graph, corpus, k))
        )


@dataclass
class Alternation:
    """One request: its neighbours, how many batches it has had, and which source the next one is taken from."""

    neighbours: Neighbours
    _observed: int = 0
    _next_turn: int = 0
    _turn: int = 0

    def order(self, pool: CandidatePool, queue: IntArray) -> tuple[IntArray, int]:
        """Eligible positions, best first, and how many of them are the source's whose turn it is."""
        if new := len(pool.batches) - self._observed:
            self._observed += new
            self._next_turn = self._turn + new
        eligible = pool.eligible
        sources = (eligible[~pool.discovered[eligible]], queue)
        # A source that has run dry is passed over; it is asked anew as long as the batch has not been taken.
        self._turn = self._next_turn if len(sources[self._next_turn % 2]) else self._next_turn + 1
        current, other = sources[self._turn % 2], sources[(self._turn + 1) % 2]
        return np.concatenate([current, other, eligible]), len(current)


class AlternatingEstimator(GraphEstimator):
    """Base of GAR and Quam."""

    state: type[Any] = Alternation

    def value(self, pool: CandidatePool, context: RAGtuneContext) -> Valuation:
        state = context.remember(self, lambda: self.state(self._neighbours()))
        order, current = state.order(pool, self.queue(pool, context, state))
        acquisition: FloatArray = np.zeros(len(pool))
        acquisition[order[::-1]] = np.arange(1, len(order) + 1) / max(1, len(order))  # of several, the last one stays
        return pool.valuation(
            pool.roster.first_stage_scores,
            acquisition=read_only(acquisition),
            batch_limit=current if current else None,
        )

    @abstractmethod
    def queue(self, pool: CandidatePool, context: RAGtuneContext, state: Any) -> IntArray:
        """Eligible positions that the graph leads to, best first."""
