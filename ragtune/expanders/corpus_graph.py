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
        positions: positions in the corpus of the pool's documents.
        expanded: places in the pool of documents left behind.
        waiting: documents that were found and wait, by their positions in the corpus, with their scores.
        settled: positions in the corpus of documents that are in the pool or cannot be scored, and :data:`NOBODY`.
    """

    positions: list[int] = field(default_factory=list)
    expanded: set[int] = field(default_factory=set)
    waiting: dict[int, float] = field(default_factory=dict)
    settled: set[int] = field(default_factory=lambda: {NOBODY})

    def best(self, count: int) -> list[int]:
        """The best that wait, equal ones in the corpus's order."""
        return sorted(sorted(self.waiting), key=self.waiting.__getitem__, reverse=True)[:count]


class CorpusGraphExpander(BaseExpander):
    """Adds the corpus graph's neighbours of reranked documents (the clustering hypothesis, Jardine and van Rijsbergen
    1971; the graph, MacAvaney, Tonellotto and Macdonald, CIKM 2022): documents that no first stage found.

    Only documents that stand in the top of the current final order open their neighbours, so that the pool grows
    where relevance has been seen. A new document's score is the best of (neighbour's rerank score times edge weight)
    over the neighbours that led to it, in [0, 1]; better ones are added first, equal ones in the corpus's order.
    Neighbours that the reranker cannot score (a replayed table without the pair) are no candidates: they are counted
    in the trace, event ``ineligible``. Each neighbour is examined once a request.
    """

    reads_files = ("graph",)

    def __init__(
        self,
        corpus: Corpus,
        graph: str,
        reranker: BaseReranker,
        k: int = 16,
        top: int | None = 20,
        ordering: Ordering | str = Ordering.POSTERIOR,
    ) -> None:
        self._corpus = corpus
        self._graph = CorpusGraph.open(graph, corpus, k)
        self._reranker = reranker
        self.top = None if top is None else check_count("expander.top", top, low=1)
        self.ordering = Ordering.parse(ordering)

    def expand(self, pool: CandidatePool, context: RAGtuneContext, limit: int) -> Sequence[ScoredDocument]:
        walk = context.remember(self, _Walk)
        joined = self._graph.positions(pool.doc_ids[len(walk.positions) :])
        walk.positions += joined
        walk.settled.update(joined)
        self._find(walk, self._reached(walk, self._sources(pool, walk)), context)
        chosen = walk.best(limit)
        scores = [walk.waiting.pop(position) for position in chosen]
        return self._corpus.hits_at(chosen, scores, GRAPH_SOURCE)

    def _sources(self, pool: CandidatePool, walk: _Walk) -> dict[int, float]:
        """Reranked documents that open their neighbours now, with their scores."""
        places = pool.reranked if self.top is None else self.ordering.keys(pool).argsort()[: self.top]
        scores = zip(places.tolist(), pool.scores[places].tolist(), strict=True)
        sources = {i: score for i, score in scores if score == score and i not in walk.expanded}
        walk.expanded.update(sources)
        return sources

    def _reached(self, walk: _Walk, sources: Mapping[int, float]) -> dict[int, float]:
        """Neighbours that are not settled, with the best of score times weight over what leads to each."""
        neighbours, weights = (rows.ravel() for rows in self._graph.rows([walk.positions[place] for place in sources]))
        settled = walk.settled
        new = np.array([i for i, at in enumerate(neighbours.tolist()) if at not in settled], dtype=np.intp)
        scores = np.minimum(1.0, np.repeat(list(sources.values()), self._graph.k)[new] * weights[new])
        best_last = scores.argsort()
        return dict(zip(neighbours[new[best_last]].tolist(), scores[best_last].tolist(), strict=True))

    def _find(self, walk: _Walk, reached: Mapping[int, float], context: RAGtuneContext) -> None:
        """Have those neighbours wait that can be scored."""
        waiting, ineligible = walk.waiting, []
        for (position, score), doc_id in zip(reached.items(), self._corpus.ids_at(list(reached)), strict=True):
            if position in waiting:
                waiting[position] = max(score, waiting[position])
            elif self._reranker.can_score(doc_id, context):
                waiting[position] = score
            else:
                ineligible.append(position)
        if ineligible:
            walk.settled.update(ineligible)
            context.trace.add("expander", "ineligible", count=len(ineligible))
