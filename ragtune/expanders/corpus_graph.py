"""Neighbours of what the reranker liked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ragtune.core.arguments import check_count
from ragtune.core.interfaces import BaseExpander, BaseReranker
from ragtune.core.pool.ordering import Ordering
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.context import GRAPH_SOURCE, RAGtuneContext
from ragtune.core.types import ScoredDocument
from ragtune.data.corpus import Corpus
from ragtune.data.graph import CorpusGraph


@dataclass
class _Walk:
    """One request's way through the graph: documents left behind, and by their corpus positions those that were found
    and wait, or are out of reach.
    """

    expanded: set[str] = field(default_factory=set)
    waiting: dict[int, float] = field(default_factory=dict)
    ineligible: set[int] = field(default_factory=set)


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
        out_of_reach = len(walk.ineligible)
        for doc_id, score in self._sources(pool):
            if doc_id not in walk.expanded:
                walk.expanded.add(doc_id)
                self._visit(doc_id, score, walk, pool, context)
        if found := len(walk.ineligible) - out_of_reach:
            context.trace.add("expander", "ineligible", count=found)
        best = sorted((-score, position) for position, score in walk.waiting.items())
        chosen = best[: limit if self.per_batch is None else min(limit, self.per_batch)]
        for _, position in chosen:
            del walk.waiting[position]
        doc_ids = self._corpus.doc_ids
        return self._corpus.hits([doc_ids[i] for _, i in chosen], [-score for score, _ in chosen], GRAPH_SOURCE)

    def _sources(self, pool: CandidatePool) -> list[tuple[str, float]]:
        """Reranked documents that may open their neighbours, with their scores."""
        positions = pool.reranked if self.top is None else self.ordering.keys(pool).argsort()[: self.top]
        scores = pool.scores[positions]
        return [(pool.doc_ids[i], s) for i, s in zip(positions, scores.tolist(), strict=True) if s == s]

    def _visit(self, doc_id: str, score: float, walk: _Walk, pool: CandidatePool, context: RAGtuneContext) -> None:
        doc_ids, index = self._corpus.doc_ids, pool.roster.index
        for neighbour, weight in zip(*self._graph.row(doc_id), strict=True):
            if neighbour in walk.ineligible or (name := doc_ids[neighbour]) in index:
                continue
            best = walk.waiting.get(neighbour)
            if best is None and not self._reranker.can_score(name, context):
                walk.ineligible.add(neighbour)
                continue
            walk.waiting[neighbour] = max(min(1.0, max(0.0, score * weight)), best or 0.0)
