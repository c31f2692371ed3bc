"""Neighbours of what the reranker liked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

from ragtune.core.arguments import check_count
from ragtune.core.component import declare_files
from ragtune.core.interfaces import BaseExpander, BaseReranker
from ragtune.core.pool.ordering import Ordering
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.context import GRAPH_SOURCE, RAGtuneContext
from ragtune.core.types import ScoredDocument
from ragtune.data.corpus import Corpus
from ragtune.data.graph import NOBODY, CorpusGraph


@dataclass
class _Walk:
    """One request's way through the graph; documents by their positions in the corpus, if not said otherwise."""

    pool: list[int] = field(default_factory=list)
    expanded: set[int] = field(default_factory=set)  # places in the pool of documents that have opened their neighbours
    waiting: dict[int, float] = field(default_factory=dict)  # found documents that do not fit yet, with their scores
    settled: set[int] = field(default_factory=lambda: {NOBODY})  # in the pool, or cannot be scored


@declare_files(reads=["graph"])
class CorpusGraphExpander(BaseExpander):
    """Adds the corpus graph's neighbours of reranked documents (the clustering hypothesis, Jardine and van Rijsbergen
    1971; the graph, MacAvaney, Tonellotto and Macdonald, CIKM 2022): documents that no first stage found.

    Only documents that stand in the top of the current final order open their neighbours, so that the pool grows
    where relevance has been seen. A new document's score is the best of (neighbour's rerank score times edge weight)
    over the neighbours that led to it, in [0, 1]; better ones are added first, equal ones in the corpus's order.
    Neighbours that the reranker cannot score (a replayed table without the pair) are no candidates: they are counted
    in the trace, event ``ineligible``. Each neighbour is examined once a request.
    """

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
        joined = self._graph.positions(pool.doc_ids[len(walk.pool) :])
        walk.pool += joined
        walk.settled.update(joined)
        sources = self._sources(pool, walk)
        rows = [array.tolist() for array in self._graph.rows([walk.pool[place] for place in sources])]
        seen = walk.settled | walk.waiting.keys()
        new = [position for position in dict.fromkeys(chain.from_iterable(rows[0])) if position not in seen]
        cannot = [
            position
            for position, doc_id in zip(new, self._corpus.ids_at(new), strict=True)
            if not self._reranker.facts.can_score(doc_id, context)
        ]
        walk.settled.update(cannot)
        for score, *edges in zip(sources.values(), *rows, strict=True):
            for position, weight in zip(*edges, strict=True):
                if position not in walk.settled:
                    walk.waiting[position] = max(walk.waiting.get(position, 0.0), min(1.0, score * weight))
        if cannot:
            context.trace.add("expander", "ineligible", count=len(cannot))
        best = sorted(sorted(walk.waiting), key=walk.waiting.__getitem__, reverse=True)[:limit]
        return self._corpus.hits_at(best, [walk.waiting.pop(position) for position in best], GRAPH_SOURCE)

    def _sources(self, pool: CandidatePool, walk: _Walk) -> dict[int, float]:
        """Reranked documents that open their neighbours now, with their scores."""
        places = pool.reranked if self.top is None else self.ordering.keys(pool).argsort()[: self.top]
        scores = zip(places.tolist(), pool.scores[places].tolist(), strict=True)
        sources = {i: score for i, score in scores if score == score and i not in walk.expanded}
        walk.expanded.update(sources)
        return sources
