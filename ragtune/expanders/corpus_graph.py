"""Neighbours of what the reranker liked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ragtune.core.arguments import check_count
from ragtune.core.interfaces import BaseExpander, BaseReranker
from ragtune.core.pool.ordering import Ordering
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.context import GRAPH_SOURCE, RAGtuneContext
from ragtune.core.types import ScoredDocument
from ragtune.data.corpus import Corpus
from ragtune.data.graph import NOBODY, CorpusGraph


@dataclass
class _Walk:
    """One request's way through the graph.

    Attributes:
        expanded: positions in the pool of documents left behind.
        waiting: documents that were found and wait, by their positions in the corpus, with their scores.
        settled: positions in the corpus of documents that are in the pool or cannot be scored, and :data:`NOBODY`.
    """

    expanded: set[int] = field(default_factory=set)
    waiting: dict[int, float] = field(default_factory=dict)
    settled: set[int] = field(default_factory=lambda: {NOBODY})


class CorpusGraphExpander(BaseExpander):
    """Adds the corpus graph's neighbours of reranked documents (the clustering hypothesis, Jardine and van Rijsbergen
    1971; the graph, MacAvaney, Tonellotto and Macdonald, CIKM 2022): documents that no first stage found.

    Only documents that stand in the top of the current final order open their neighbours, so that the pool grows
    where relevance has been seen. A new document's score is the best of (neighbour's rerank score times edge weight)
    over the neighbours that led to it, in [0, 1]; better ones are added first, equal ones in the corpus's order.
    Neighbours that the reranker cannot score (a replayed table without the pair) are no candidates: they are counted
    in the trace, event ``ineligible``. Each neighbour is examined once a request.

    Args:
        corpus: collection that the graph was built from.
        graph: folder of the graph, made by ``ragtune graph``.
        reranker: reranker that is asked which documents it can score.
        k: neighbours of a document, at most as many as the graph holds.
        top: size of the top of the final order whose reranked documents open their neighbours; None for every
            reranked document.
        per_batch: documents added between two batches at most, the others wait; None for all.
        ordering: final order whose top counts, an ``Ordering`` or its name.

    Raises:
        ConfigError: on an argument out of range, or a graph of another corpus.
    """

    reads_budget = False
    reads_estimates: bool = True

    def __init__(
        self,
        corpus: Corpus,
        graph: str,
        reranker: BaseReranker,
        k: int = 16,
        top: int | None = 20,
        per_batch: int | None = None,
        ordering: Ordering | str = Ordering.POSTERIOR,
    ) -> None:
        self._corpus = corpus
        self._graph = CorpusGraph.open(graph, corpus, k)
        self._reranker = reranker
        self.top = None if top is None else check_count("expander.top", top, low=1)
        self.per_batch = None if per_batch is None else check_count("expander.per_batch", per_batch, low=1)
        self.ordering = Ordering.parse(ordering)
        self.reads_estimates = top is not None

    def expand(self, pool: CandidatePool, context: RAGtuneContext, limit: int) -> Sequence[ScoredDocument]:
        walk = context.remember(self, _Walk)
        sources = self._sources(pool, walk)
        walk.expanded.update(sources)
        index, waiting, ineligible = pool.roster.index, walk.waiting, 0
        reached = self._reached(pool, sources, walk)
        for name, (neighbour, score) in zip(self._corpus.ids_at(list(reached)), reached.items(), strict=True):
            if name in index:
                walk.settled.add(neighbour)
            elif neighbour in waiting:
                waiting[neighbour] = max(score, waiting[neighbour])
            elif self._reranker.can_score(name, context):
                waiting[neighbour] = score
            else:
                walk.settled.add(neighbour)
                ineligible += 1
        if ineligible:
            context.trace.add("expander", "ineligible", count=ineligible)
        best = sorted((-score, position) for position, score in waiting.items())
        chosen = best[: limit if self.per_batch is None else min(limit, self.per_batch)]
        positions = [position for _, position in chosen]
        for position in positions:
            del waiting[position]
        return self._corpus.hits(self._corpus.ids_at(positions), [-score for score, _ in chosen], GRAPH_SOURCE)

    def _sources(self, pool: CandidatePool, walk: _Walk) -> dict[int, float]:
        """Reranked documents that may open their neighbours and have not, with their scores."""
        positions = pool.reranked if self.top is None else self.ordering.keys(pool).argsort()[: self.top]
        scores = zip(positions.tolist(), pool.scores[positions].tolist(), strict=True)
        return {i: score for i, score in scores if score == score and i not in walk.expanded}

    def _reached(self, pool: CandidatePool, sources: Mapping[int, float], walk: _Walk) -> dict[int, float]:
        """Neighbours that are not settled, with the best of score times weight over what led to each."""
        doc_ids, settled = pool.doc_ids, walk.settled
        neighbours, weights = self._graph.rows(self._graph.positions([doc_ids[i] for i in sources]))
        scores = np.minimum(1.0, np.array(list(sources.values()))[:, None] * weights).ravel()
        best_last = scores.argsort()
        pairs = zip(neighbours.ravel()[best_last].tolist(), scores[best_last].tolist(), strict=True)
        return {neighbour: score for neighbour, score in pairs if neighbour not in settled}
