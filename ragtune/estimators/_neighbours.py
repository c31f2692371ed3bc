"""Neighbours of a document inside a pool: by a corpus graph, or by the texts of the pool alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import numpy as np

from ragtune.core.arguments import check_count
from ragtune.core.arrays import FloatArray
from ragtune.core.interfaces import TextVectors
from ragtune.core.pool.pool import CandidatePool
from ragtune.data.corpus import Corpus
from ragtune.data.graph import CorpusGraph
from ragtune.data.topk import best_positions

Edges = list[tuple[int, float]]
"""Pool positions of a document's neighbours with their weights, nearest first."""


class Neighbours(ABC):
    """Neighbours among the documents of one request's pool; remembered until the pool grows."""

    def __init__(self) -> None:
        self._edges: dict[int, Edges] = {}
        self._size = 0

    def __deepcopy__(self, memo: Any) -> Neighbours:
        twin = copy(self)  # graph and vectors are the collection's
        twin._edges = dict(self._edges)
        return twin

    def of(self, pool: CandidatePool, positions: Sequence[int]) -> list[Edges]:
        """The neighbours of each document that are in the pool."""
        if len(pool) != self._size:
            self._size = len(pool)
            self._edges = {}
        unknown = [position for position in positions if position not in self._edges]
        if unknown:
            self._edges |= zip(unknown, self._find(pool, unknown), strict=True)
        return [self._edges[position] for position in positions]

    @abstractmethod
    def _find(self, pool: CandidatePool, positions: Sequence[int]) -> list[Edges]: ...


class GraphNeighbours(Neighbours):
    """Neighbours by a corpus graph."""

    def __init__(self, graph: CorpusGraph) -> None:
        super().__init__()
        self._graph = graph

    def _find(self, pool: CandidatePool, positions: Sequence[int]) -> list[Edges]:
        return [
            [(pool.index_of(d), w) for d, w in self._graph.weighted_neighbours(pool.doc_ids[i]) if d in pool]
            for i in positions
        ]


class TextNeighbours(Neighbours):
    """The k documents of the pool with the highest positive text cosine, equal ones in the pool's order."""

    def __init__(self, vectors: TextVectors, k: int) -> None:
        super().__init__()
        self._vectors = vectors
        self._k = k
        self._rows: Any = None
        self._rows_of: tuple[str, ...] = ()

    def _find(self, pool: CandidatePool, positions: Sequence[int]) -> list[Edges]:
        if self._rows_of != pool.doc_ids:
            self._rows, self._rows_of = self._vectors.of(pool.entries), pool.doc_ids
        product = self._rows[list(positions)] @ self._rows.T
        cosines: FloatArray = product.toarray() if hasattr(product, "toarray") else np.asarray(product)
        return [self._nearest(row, position) for row, position in zip(cosines, positions, strict=True)]

    def _nearest(self, cosines: FloatArray, position: int) -> Edges:
        cosines[position] = 0.0
        best = best_positions(cosines, np.arange(len(cosines)), self._k, above=0.0)
        return list(zip(best.tolist(), cosines[best].tolist(), strict=True))


def neighbours_by(
    corpus: Corpus, vectors: Callable[[Corpus], TextVectors], k: int, graph: str | None
) -> Callable[[], Neighbours]:
    """Makes the neighbours of a request: by the graph in the folder ``graph``, or by text where that is None.

    Raises:
        ConfigError: if ``k`` is not a positive integer, or the graph cannot be used.
    """
    check_count("estimator.k", k, low=1)
    if graph is not None:
        opened = CorpusGraph.open(graph, corpus, k)
        return lambda: GraphNeighbours(opened)
    made = vectors(corpus)
    return lambda: TextNeighbours(made, k)
