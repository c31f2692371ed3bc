"""Orders of a batch and their scores."""

from __future__ import annotations

from collections.abc import Sequence

from ragtune.core.pool.items import PoolItem


def by_standing(items: Sequence[PoolItem]) -> list[PoolItem]:
    """Return the documents best first before they are compared: by the estimator's final key where it gives one, else
    by score, then ``initial_rank``, then ``doc_id``.
    """

    def standing(item: PoolItem) -> float:
        return item.final_score() if item.posterior is None else item.posterior

    return sorted(items, key=lambda item: (-standing(item), item.initial_rank, item.doc_id))


def rank_scores(order: Sequence[PoolItem], told: int | None = None) -> dict[str, float]:
    """Return 1 / (1 + r) for the r-th document from 1: the scale ``rank`` of score tables, whose logit is -ln r.

    Args:
        order: the documents, best first.
        told: number of documents at the front that are ranked; the others share the next rank. None for all.
    """
    last = len(order) if told is None else told + 1
    return {item.doc_id: 1.0 / (1.0 + min(rank, last)) for rank, item in enumerate(order, start=1)}
