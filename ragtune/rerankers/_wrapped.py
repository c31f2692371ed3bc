"""Base of rerankers that pass batches on to another one."""

from __future__ import annotations

from collections.abc import Sequence

from ragtune.core.interfaces import BaseReranker
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import CostObject


class WrappedReranker(BaseReranker):
    """Passes batches on to another reranker, with the same costs, the same cache and the same scorable documents."""

    def __init__(self, inner: BaseReranker) -> None:
        self.inner = inner
        self.facts = inner.facts

    def prepare(self) -> None:
        self.inner.prepare()

    def expected_cost(self, items: Sequence[PoolItem], context: RAGtuneContext) -> CostObject:
        return self.inner.expected_cost(items, context)
