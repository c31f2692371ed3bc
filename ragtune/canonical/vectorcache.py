"""A durable store of embeddings, so that no text is ever embedded twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ragtune.canonical.types import Embedding
from ragtune.data.caches.sqlitecache import SqliteCache

_STORED = np.dtype("<f4")  # the same bytes on every machine


class VectorCache:
    """Vectors by embedder and text, see :class:`ragtune.data.caches.sqlitecache.SqliteCache`.

    Args:
        folder: folder of ``vectors.sqlite``, made on first use.
        embedder: the embedder's name, which identifies the vectors.
    """

    def __init__(self, folder: Path, embedder: str) -> None:
        self._cache = SqliteCache[bytes](folder / "vectors.sqlite", "vector", "vector BLOB NOT NULL")
        self._embedder = embedder

    def get(self, texts: Sequence[str]) -> dict[str, Embedding]:
        """The known vectors by text, each of shape (d,).

        Raises:
            ConfigError: if the folder cannot be used.
        """
        keys = {self._key(text): text for text in texts}
        found = self._cache.get(list(keys))
        return {keys[key]: np.frombuffer(data, dtype=_STORED).astype(np.float32) for key, data in found.items()}

    def put(self, vectors: Mapping[str, Embedding]) -> None:
        """Keep vectors durably; one that cannot be written causes a warning."""
        self._cache.put({self._key(text): vector.astype(_STORED).tobytes() for text, vector in vectors.items()})

    def close(self) -> None:
        """Close the file."""
        self._cache.close()

    def _key(self, text: str) -> bytes:
        return SqliteCache.key(self._embedder, text)
