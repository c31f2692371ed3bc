"""BM25 by bm25s: the default first stage."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from ragtune.core.arguments import check_choice, check_number
from ragtune.core.interfaces import BaseRetriever
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import ScoredDocument
from ragtune.data.caches.diskcache import AUTO, DiskCache
from ragtune.data.corpus import Corpus, best_positions
from ragtune.data.text import analyzer_id, terms
from ragtune.retrievers._postings import built

METHODS = ("lucene", "robertson", "atire")
"""Variants in which a document without any query term scores 0 (Kamphuis et al. 2020)."""


class BM25Retriever(BaseRetriever):
    """Okapi BM25 (Robertson et al. 1994) over stemmed terms, scored eagerly at indexing time (Lu 2024, bm25s).

    Documents without any query term are not returned; a term that the query repeats counts as often as it is
    repeated, on which weighted queries (``rm3``) rely. The index is cached on disk, keyed by the corpus, the
    settings and the versions of the libraries, and memory-mapped, so that processes share it. The memory for building
    hardly grows with the collection.
    """

    def __init__(
        self,
        corpus: Corpus,
        k1: float = 1.5,
        b: float = 0.75,
        method: str = "lucene",
        cache_dir: str | Path | None = AUTO,
    ) -> None:
        self.k1 = check_number("bm25 k1", k1, low=0.0)
        self.b = check_number("bm25 b", b, 0.0, 1.0)
        self.method = check_choice("bm25 method", method, METHODS)
        self._corpus = corpus
        self._tie_ranks = corpus.id_ranks
        key = f"{corpus.digest} {analyzer_id()} bm25s-{version('bm25s')} {self.method} k1={self.k1!r} b={self.b!r}"
        self._index = DiskCache("bm25", cache_dir).fetch(key, self._build, _save, _load)

    def retrieve(self, context: RAGtuneContext, top_k: int) -> Sequence[ScoredDocument]:
        known = self._index.get_tokens_ids(terms(context.query))
        if not known:
            return []
        scores = self._index.get_scores_from_ids(known)
        best = best_positions(scores, self._tie_ranks, top_k, above=0.0)
        return self._corpus.hits_at(best.tolist(), scores[best].tolist())

    def _build(self) -> Any:
        return built(self._corpus.contents, len(self._corpus), terms, self.k1, self.b, self.method)


def _save(index: Any, folder: Path) -> None:
    index.save(folder, show_progress=False)


def _load(folder: Path) -> Any:
    import bm25s

    index = bm25s.BM25.load(folder, mmap=True, show_progress=False)
    # As plain arrays over the same mapped files: a memmap costs microseconds whenever it is sliced.
    index.scores |= {name: np.asarray(index.scores[name]) for name in ("data", "indices", "indptr")}
    return index
