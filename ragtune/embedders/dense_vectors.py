"""An embedder's document vectors for estimators and signals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ragtune.core.interfaces import BaseEmbedder
from ragtune.core.pool.items import PoolItem, ids_of
from ragtune.data.caches.diskcache import AUTO
from ragtune.data.corpus import Corpus
from ragtune.data.docvectors import DocumentVectors


class DenseVectors(DocumentVectors):
    """Rows of an embedder's document vectors, for estimators whose covariance is text similarity."""

    are_words = False

    def __init__(self, corpus: Corpus, embedder: BaseEmbedder, cache_dir: str | Path | None = AUTO) -> None:
        super().__init__(corpus, embedder, cache_dir)
        self.prepare()

    def of(self, items: Sequence[PoolItem]) -> Any:
        from scipy.sparse import csr_matrix

        positions = self._corpus.positions(ids_of(items))
        return csr_matrix(np.asarray(self.matrix[positions], dtype=np.float64))

    def of_query(self, text: str) -> Any:
        from scipy.sparse import csr_matrix

        return csr_matrix(np.asarray(self._embedder.embed([text]), dtype=np.float64))
