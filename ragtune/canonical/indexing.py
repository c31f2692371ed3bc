"""Index (rules D5 and D16): chunks and their vectors into a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ragtune.canonical.embedding import embed
from ragtune.canonical.store.base import BaseStore
from ragtune.canonical.types import Chunk


def index(chunks: Sequence[Chunk], store: BaseStore) -> dict[str, Any]:
    """Embed chunks by the store's embedder and upsert them in one transaction; idempotent.

    Args:
        chunks: all chunks of some documents, each with a ``doc_id``; other stored chunks of these documents are
            deleted.
        store: the store that the chunks are written to.

    Returns:
        ``{"collection", "documents", "inserted", "updated", "unchanged", "deleted", "keys"}``: the counts of
        :class:`ragtune.canonical.types.UpsertCounts` and the storage keys of the given chunks, ``[doc_id,
        chunk_index]``, in their order.

    Raises:
        InputError: on a chunk without ``doc_id``, a repeated key, or what a store cannot keep; nothing is written.
        StoreError: if the database fails; nothing is written.
    """
    counts = store.upsert(chunks, embed(chunks, store.embedder))
    keys = [[chunk.doc_id, chunk.chunk_index] for chunk in chunks]
    return {"collection": store.collection.name, **counts.model_dump(), "keys": keys}
