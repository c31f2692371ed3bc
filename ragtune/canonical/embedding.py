"""Embed (rule D4): texts into vectors, in batches, none paid for twice."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np

from ragtune.canonical.permit import current
from ragtune.canonical.types import Chunk, Embedding
from ragtune.core.arguments import check_count
from ragtune.core.errors import InputError
from ragtune.core.interfaces import BaseEmbedder
from ragtune.data.caches.diskcache import AUTO, resolve_cache_dir
from ragtune.data.caches.sqlitecache import SqliteCache

_STORED = np.dtype("<f4")  # the same bytes on every machine


def embed(
    texts_or_chunks: Sequence[str] | Sequence[Chunk],
    embedder: BaseEmbedder,
    batch_size: int = 64,
    cache_dir: str | Path | None = AUTO,
) -> Embedding:
    """L2-normalised vectors of texts or chunks' contents. Equal texts are embedded once, and each batch is cached."""
    check_count("embed batch_size", batch_size, low=1)
    texts = [item.content if isinstance(item, Chunk) else item for item in texts_or_chunks]
    if not texts:
        return np.empty((0, dimension(embedder)), dtype=np.float32)
    folder = resolve_cache_dir(cache_dir)
    with ExitStack() as stack:
        cache = None
        if folder is not None:
            file = folder / "vectors" / "vectors.sqlite"
            cache = stack.enter_context(closing(SqliteCache[bytes](file, "vector", "vector BLOB NOT NULL")))
        vectors = _embedded(list(dict.fromkeys(texts)), embedder, batch_size, cache)
    dims = sorted({len(vector) for vector in vectors.values()})
    if len(dims) > 1:
        raise InputError(f"embedder {embedder.name!r} gave vectors of {dims} dims: allowed is one length for all texts")
    return np.stack([vectors[text] for text in texts])


def dimension(embedder: BaseEmbedder) -> int:
    """Length of the embedder's vectors, found by asking for the vectors of no texts."""
    return int(_checked(embedder, []).shape[1])


def _embedded(
    texts: Sequence[str], embedder: BaseEmbedder, batch_size: int, cache: SqliteCache[bytes] | None
) -> dict[str, Embedding]:
    keys = {text: SqliteCache.key(embedder.name, text) for text in texts}
    found = cache.get(list(keys.values())) if cache is not None else {}
    vectors = {
        text: np.frombuffer(found[key], dtype=_STORED).astype(np.float32) for text, key in keys.items() if key in found
    }
    missing = [text for text in texts if text not in vectors]
    permit = current()
    for start in range(0, len(missing), batch_size):
        permit.check()
        batch = missing[start : start + batch_size]
        fresh = dict(zip(batch, _checked(embedder, batch), strict=True))
        vectors |= fresh
        if cache is not None:
            cache.put({keys[text]: vector.astype(_STORED).tobytes() for text, vector in fresh.items()})
    return vectors


def _checked(embedder: BaseEmbedder, texts: Sequence[str]) -> Embedding:
    vectors = np.asarray(embedder.embed(texts), dtype=np.float32)
    if vectors.ndim != 2 or len(vectors) != len(texts) or vectors.shape[1] < 1:
        raise InputError(
            f"embedder {embedder.name!r} gave shape {vectors.shape} for {len(texts)} texts: "
            f"allowed is ({len(texts)}, dims)"
        )
    if not np.isfinite(vectors).all():
        bad = texts[int(np.flatnonzero(~np.isfinite(vectors).all(axis=1))[0])]
        raise InputError(f"embedder {embedder.name!r} gave a vector that is not finite for the text {bad[:100]!r}")
    return vectors
