"""Facts about rerankers that recorded, cached and priced ones state."""

from __future__ import annotations

from collections.abc import Sequence

from ragtune.core.component import Component
from ragtune.core.pool.items import PoolItem
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.units import SOMETIMES_TOLD


class AccountedReranker(Component):
    """What the harness, forecasts and caches ask of a reranker.

    The defaults fit a live reranker that knows no prices. Only rerankers with recorded or cached scores, or with known
    prices, override them.
    """

    @property
    def is_recorded(self) -> bool:
        """Whether every score is known beforehand, so that asking for one costs nothing."""
        return False

    @property
    def simulates_time(self) -> bool:
        """Whether the charged time was recorded, so that a virtual clock must keep it."""
        return self.is_recorded

    def can_score(self, doc_id: str, context: RAGtuneContext) -> bool:
        """Whether the reranker can score the document for this request; a score table may lack it."""
        return True

    def unpaid(self, items: Sequence[PoolItem], context: RAGtuneContext) -> Sequence[PoolItem]:
        """The documents whose scores would have to be paid for now; a cache leaves out those it holds."""
        return items

    @property
    def unpriced(self) -> frozenset[str]:
        """Units in which an expected cost of 0 means that the price is unknown."""
        return frozenset({"tokens", "latency_ms", "usd", *SOMETIMES_TOLD})
