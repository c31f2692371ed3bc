"""Dense vectors of a whole collection, made once and kept on disk."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ragtune.core.component import Component
from ragtune.core.interfaces import BaseEmbedder
from ragtune.data.caches.diskcache import AUTO, DiskCache
from ragtune.data.corpus import Corpus

_FILE = "embeddings.npy"


class DocumentVectors(Component):
    """An embedder's vectors of every document, made on first use, cached by corpus and embedder, memory-mapped."""

    def __init__(self, corpus: Corpus, embedder: BaseEmbedder, cache_dir: str | Path | None = AUTO) -> None:
        self._corpus = corpus
        self._embedder = embedder
        self._cache = DiskCache("dense", cache_dir)

    def prepare(self) -> None:
        """Make the vectors, or open those on disk without the embedder."""
        _ = self.matrix

    @cached_property
    def matrix(self) -> NDArray[np.float32]:
        """Shape (documents, d), rows L2-normalised, in the corpus's order."""
        return self._cache.fetch(
            f"{self._corpus.digest} {self._embedder.name}",
            lambda: self._embedder.embed(self._corpus.contents),
            lambda vectors, folder: np.save(folder / _FILE, vectors),
            self._load,
        )

    def _load(self, folder: Path) -> NDArray[np.float32]:
        vectors: NDArray[np.float32] = np.load(folder / _FILE, mmap_mode="r")
        if len(vectors) != len(self._corpus):
            raise ValueError(f"{len(vectors)} vectors for {len(self._corpus)} documents")
        return vectors
