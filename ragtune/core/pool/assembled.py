"""Documents as a request hands them out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ragtune.core.arrays import FloatArray, IntArray
from ragtune.core.pool.entries import Entries
from ragtune.core.pool.items import PoolItem
from ragtune.core.pool.ordering import Ordering
from ragtune.core.pool.roster import Roster
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import ScoredDocument


def documents_at(roster: Roster, positions: IntArray, keys: FloatArray, scores: FloatArray) -> Entries[ScoredDocument]:
    """Documents of a pool in the order in which they are handed out.

    Args:
        roster: the pool's documents.
        positions: shape (m,), those that are handed out, best first.
        keys: shape (m,), what they are sorted by.
        scores: shape (m,), the reranker's scores, NaN where there is none.
    """
    places = positions.tolist()
    doc_ids = [roster.doc_ids[i] for i in places]
    return Entries(doc_ids, roster.token_counts[positions], partial(_document, roster.items, places, keys, scores))


def _document(
    items: Sequence[PoolItem], places: Sequence[int], keys: FloatArray, scores: FloatArray, i: int
) -> ScoredDocument:
    score = float(scores[i])
    return handed_out(items[places[i]], float(keys[i]), score if score == score else None)  # NaN differs from itself


def handed_out(item: PoolItem, key: float, reranker_score: float | None) -> ScoredDocument:
    """The document of an item, with the key that it is sorted by as its score."""
    return ScoredDocument.trusted(
        {
            "id": item.doc_id,
            "content": item.content,
            "metadata": dict(item.metadata),
            "score": key,
            "original_score": item.retrieval_score,
            "reranker_score": reranker_score,
            "fusion_score": item.fusion_score,
            "token_count": item.token_count,
            "sources": dict(item.sources),
        }
    )


def best_that_fit(ordering: Ordering, items: Sequence[PoolItem], context: RAGtuneContext) -> list[ScoredDocument]:
    """The items best first while their tokens fit; an item that does not fit is skipped for shorter ones behind it."""
    return [
        handed_out(item, key, item.reranker_score)
        for item, key in ordering.ranked(items)
        if context.tracker.try_consume_tokens(item.token_count)
    ]
