"""Exact nearest neighbours by cosine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ragtune.core.interfaces import BaseEmbedder, BaseRetriever
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import ScoredDocument
from ragtune.data.caches.diskcache import AUTO
from ragtune.data.corpus import Corpus, best_positions
from ragtune.data.docvectors import DocumentVectors

_DECIMALS = 6


class DenseRetriever(BaseRetriever):
    """Bi-encoder retrieval (Karpukhin et al. 2020): cosine of query and document vectors, by exhaustive search.

    Scores are in [-1, 1], rounded to 6 decimals, so that float32 noise does not decide between equal documents. Every
    document has a score, so min(top_k, collection) documents are returned. A query whose vector is zero finds nothing.
    """

    def __init__(self, corpus: Corpus, embedder: BaseEmbedder, cache_dir: str | Path | None = AUTO) -> None:
        self._corpus = corpus
        self._embedder = embedder
        self._documents = DocumentVectors(corpus, embedder, cache_dir)
        self._tie_ranks = corpus.id_ranks

    def prepare(self) -> None:
        self._embedder.prepare()
        self._documents.prepare()

    def retrieve(self, context: RAGtuneContext, top_k: int) -> Sequence[ScoredDocument]:
        query = self._embedder.embed([context.query])[0]
        if not query.any():
            return []
        scores = np.round(np.clip(self._documents.matrix @ query, -1.0, 1.0).astype(np.float64), _DECIMALS)
        best = best_positions(scores, self._tie_ranks, top_k)
        return self._corpus.hits_at(best.tolist(), scores[best].tolist())
