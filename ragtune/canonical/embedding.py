"""Embed (rule D4): texts into vectors, in batches, none paid for twice."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from ragtune.canonical.permit import current
from ragtune.canonical.types import Chunk, Embedding
from ragtune.canonical.vectorcache import VectorCache
from ragtune.core.arguments import check_count
from ragtune.core.errors import InputError
from ragtune.core.interfaces import BaseEmbedder
from ragtune.data.caches.diskcache import AUTO, resolve_cache_dir


def embed(
    texts_or_chunks: Sequence[str] | Sequence[Chunk],
    embedder: BaseEmbedder,
    batch_size: int = 64,
    cache_dir: str | Path | None = AUTO,
) -> Embedding:
    """Vectors of texts or of chunks' contents; equal texts are embedded once.

    Every batch is kept as soon as it is made, so interrupted work goes on where it stopped.

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
    folder = resolve_cache_dir(cache_dir)
    if folder is None:
        vectors = _fill({}, texts, embedder, batch_size, None)
    else:
        with closing(VectorCache(folder / "vectors", embedder.name)) as cache:
            vectors = _fill(cache.get(texts), texts, embedder, batch_size, cache)
    return np.stack([vectors[text] for text in texts])


def dimension(embedder: BaseEmbedder) -> int:
    """Length of the embedder's vectors, found by asking for the vectors of no texts."""
    return int(_checked(embedder, []).shape[1])


def _fill(
    known: dict[str, Embedding],
    texts: Sequence[str],
    embedder: BaseEmbedder,
    batch_size: int,
    cache: VectorCache | None,
) -> dict[str, Embedding]:
    """``known`` with what was missing; all of one length."""
    missing = [text for text in dict.fromkeys(texts) if text not in known]
    permit = current()
    for start in range(0, len(missing), batch_size):
        permit.check()
        batch = missing[start : start + batch_size]
        fresh = dict(zip(batch, _checked(embedder, batch), strict=True))
        known |= fresh
        _check_dims(known, embedder)
        if cache is not None:
            cache.put(fresh)
    _check_dims(known, embedder)
    return known


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
