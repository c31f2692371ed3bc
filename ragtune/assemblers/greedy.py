"""Greedy assembly under the token budget."""

from __future__ import annotations

from collections.abc import Sequence

from ragtune.core.context import RAGtuneContext
from ragtune.core.interfaces import BaseAssembler
from ragtune.core.items import PoolItem
from ragtune.core.ordering import Ordering
from ragtune.core.types import ScoredDocument
from ragtune.core.unchecked import unchecked


class GreedyAssembler(BaseAssembler):
    """Takes documents best first while their tokens fit (0.54 section 3; 0.1 section 4).

    A document that does not fit is skipped and shorter ones behind it still get their chance, so the budget is used
    as far as it goes.

    Args:
        ordering: ``final_score``, ``reranked_first`` or ``posterior``.

    Raises:
        ConfigError: on an unknown ordering.
    """

    def __init__(self, ordering: Ordering | str = Ordering.FINAL_SCORE) -> None:
        self.ordering = Ordering.parse(ordering)

    def assemble(self, items: Sequence[PoolItem], context: RAGtuneContext) -> list[ScoredDocument]:
        return [
            _to_document(item)
            for item in self.ordering.sort(items)
            if context.tracker.try_consume_tokens(item.token_count)
        ]


def _to_document(item: PoolItem) -> ScoredDocument:
    values = {
        "id": item.doc_id,
        "content": item.content,
        "metadata": item.metadata,
        "score": item.final_score(),
        "original_score": item.retrieval_score,
        "reranker_score": item.reranker_score,
        "fusion_score": item.fusion_score,
        "token_count": item.token_count,
        "sources": item.sources,
    }
    return unchecked(ScoredDocument, values)
