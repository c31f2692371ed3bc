"""Embeddings as the text vectors of policies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ragtune.core.interfaces import BaseEmbedder
from ragtune.core.pool.items import PoolItem
from ragtune.data.caches.diskcache import AUTO
from ragtune.data.corpus import Corpus
from ragtune.data.docvectors import DocumentVectors


class DenseVectors:
    """Rows of an embedder's document vectors, for estimators whose covariance is text similarity.

    The alternative to :class:`ragtune.embedders.tfidf.TfidfEmbedder`: ``estimator.vectors._target_``. A Gram matrix of
    any vectors is positive semi-definite, so negative cosines do no harm.

    Args:
        corpus: whose documents.
        embedder: makes the vectors.
        cache_dir: ``auto`` for the platform's cache folder, a folder, or None for no cache.
    """

    are_words = False

    def __init__(self, corpus: Corpus, embedder: BaseEmbedder, cache_dir: str | Path | None = AUTO) -> None:
        self._corpus = corpus
        self._embedder = embedder
        self._vectors = DocumentVectors(corpus, embedder, cache_dir)
        self._vectors.prepare()  # at once, as TF-IDF's are: no request's clock is to see it

    def of(self, items: Sequence[PoolItem]) -> Any:
        """:meth:`rows` of a request's documents."""
        return self.rows([item.doc_id for item in items])

    def of_query(self, text: str) -> Any:
        """The embedder's vector of any text, shape (1, d), in the same form."""
        from scipy.sparse import csr_matrix

        return csr_matrix(np.asarray(self._embedder.embed([text]), dtype=np.float64))

    def rows(self, doc_ids: Sequence[str]) -> Any:
        """``scipy.sparse.csr_matrix`` of shape (len(doc_ids), d), float64, rows L2-normalised.

        Raises:
            DatasetError: if the corpus does not hold a document.
        """
        from scipy.sparse import csr_matrix

        positions = [self._corpus.position(doc_id) for doc_id in doc_ids]
        return csr_matrix(np.asarray(self._vectors.matrix[positions], dtype=np.float64))
