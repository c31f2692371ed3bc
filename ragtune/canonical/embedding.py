"""Embed (rule D4): texts into vectors, in batches, none paid for twice."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
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
    """Vectors of texts or of chunks' contents. Equal texts are embedded once.

    Each batch is cached at once, so interrupted work continues where it stopped.

    Args:
        texts_or_chunks: the n texts, or the chunks whose contents are embedded.
        embedder: makes the vectors, which are cached under its ``name``.
        batch_size: texts in each call of the embedder, >= 1.
        cache_dir: where vectors are cached: ``auto`` for the platform's cache folder, a folder, or None for no cache.

    Returns:
        Shape (n, d), float32, rows as the embedder gives them: L2-normalised.

    Raises:
        InputError: if the embedder gives another number of vectors than texts, other dims than before, or values that
            are not finite; names the embedder.
        ConfigError: on a batch size out of range, or a cache folder that cannot be used.
    """
    check_count("embed batch_size", batch_size, low=1)
    texts = [item.content if isinstance(item, Chunk) else item for item in texts_or_chunks]
    if not texts:
        return np.empty((0, dimension(embedder)), dtype=np.float32)
    missing = list(dict.fromkeys(texts))
    folder = resolve_cache_dir(cache_dir)
    if folder is None:
        vectors = _embedded(missing, embedder, batch_size, None)
    else:
        column = "vector BLOB NOT NULL"
        with closing(SqliteCache[bytes](folder / "vectors" / "vectors.sqlite", "vector", column)) as cache:
            vectors = _embedded(missing, embedder, batch_size, cache)
    return np.stack([vectors[text] for text in texts])


def dimension(embedder: BaseEmbedder) -> int:
    """Length of the embedder's vectors, found by asking for the vectors of no texts."""
    return int(_checked(embedder, []).shape[1])


def _embedded(
    texts: Sequence[str], embedder: BaseEmbedder, batch_size: int, cache: SqliteCache[bytes] | None
) -> dict[str, Embedding]:
    """Vectors by text, all of one length."""
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
        _check_dims(vectors, embedder)
        if cache is not None:
            cache.put({keys[text]: vector.astype(_STORED).tobytes() for text, vector in fresh.items()})
    _check_dims(vectors, embedder)
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


def _check_dims(vectors: dict[str, Embedding], embedder: BaseEmbedder) -> None:
    dims = sorted({len(vector) for vector in vectors.values()})
    if len(dims) > 1:
        raise InputError(f"embedder {embedder.name!r} gave vectors of {dims} dims: allowed is one length for all texts")
