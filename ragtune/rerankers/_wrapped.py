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
        self.compares = inner.compares

    def prepare(self) -> None:
        self.inner.prepare()

    def unpaid(self, items: Sequence[PoolItem], context: RAGtuneContext) -> Sequence[PoolItem]:
        return self.inner.unpaid(items, context)

    def expected_cost(self, items: Sequence[PoolItem], context: RAGtuneContext) -> CostObject:
        return self.inner.expected_cost(items, context)

    @property
    def unpriced(self) -> frozenset[str]:
        return self.inner.unpriced

    def can_score(self, doc_id: str, context: RAGtuneContext) -> bool:
        return self.inner.can_score(doc_id, context)

    @property
    def is_recorded(self) -> bool:
        return self.inner.is_recorded

    @property
    def simulates_time(self) -> bool:
        return self.inner.simulates_time
