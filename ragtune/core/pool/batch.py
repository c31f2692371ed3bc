"""A batch on its way to a reranker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import RAGtuneContext


class RerankBatch(NamedTuple):
    """What one request wants scored next.

    Attributes:
        items: the documents of the batch.
        context: the request.
        strategy: name of the reranker that is asked.
    """

    items: Sequence[PoolItem]
    context: RAGtuneContext
    strategy: str = "default"
