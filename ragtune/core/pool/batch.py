"""A batch on its way to a reranker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ragtune.core.pool.entries import Entries
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import RAGtuneContext


class RerankBatch(NamedTuple):
    """The documents that one request asks to have scored next.

    Attributes:
        items: the documents of the batch.
        context: the request.
        strategy: name of the reranker that is asked.
    """

    items: Sequence[PoolItem]
    context: RAGtuneContext
    strategy: str = "default"


def ids_of(items: Sequence[PoolItem]) -> Sequence[str]:
    """Ids of a batch's documents; makes no item where the batch holds columns."""
    return items.doc_ids if isinstance(items, Entries) else [item.doc_id for item in items]


def lengths_of(items: Sequence[PoolItem]) -> list[int]:
    """Tokens of each document of a batch; makes no item where the batch holds columns."""
    return items.token_counts if isinstance(items, Entries) else [item.token_count for item in items]
