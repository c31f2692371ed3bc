"""Final orders with the tie-breaking rule (O3 and O4), and documents as a request hands them out in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ragtune.core.arguments import check_member
from ragtune.core.arrays import FloatArray, IntArray
from ragtune.core.hits import Entries
from ragtune.core.pool.columns import DROPPED, PoolColumns
from ragtune.core.pool.items import CODE, PoolItem, tie_key
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.pool.roster import Roster
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import ScoredDocument


@dataclass(frozen=True)
class RankingKeys:
    """What a ranking is sorted by: score, descending, then position in tie-breaking order, both of shape (m,)."""

    score: FloatArray
    positions: IntArray

    def argsort(self) -> IntArray:
        return self.positions[(-self.score).argsort(kind="stable")]


class Ordering(str, Enum):
    """How the final list is ordered.

    - ``final_score``: reranker score, else positive priority, else best source score (rule O2);
    - ``reranked_first``: reranked documents by their score, then the rest in first-stage order (the classic order);
    - ``posterior``: the estimator's key after all evidence; from an estimator that gives none, ``reranked_first``.

    Documents without such a key stand behind those with one, in first-stage order. Their keys go on falling by 1 a
    document from the lowest key, or from 0 where that is lower, so one number orders the whole list. A document whose
    score was lost (DROPPED) is ordered by its estimate as well. Where the rest stands behind all scores, it keeps its
    first-stage place instead, so that a loss does not put it behind what was scored (rule F1).

    Examples:
        >>> from ragtune.core.pool.items import PoolItem
        >>> from ragtune.core.pool.ordering import Ordering
        >>> items = [PoolItem("a", priority_value=0.2), PoolItem("b", priority_value=0.7)]
        >>> [item.doc_id for item in Ordering.parse("final_score").sort(items)]
        ['b', 'a']
    """

    FINAL_SCORE = "final_score"
    RERANKED_FIRST = "reranked_first"
    POSTERIOR = "posterior"

    @classmethod
    def parse(cls, value: Ordering | str) -> Ordering:
        """The ordering of that name; ConfigError on an unknown one."""
        return check_member(cls, "ordering", value)

    def keys(self, pool: CandidatePool) -> RankingKeys:
        """The pool's ranking keys as of now; O(n), and a copy, so later changes do not reach it."""
        return self.keys_at(pool.columns())

    def keys_at(self, columns: PoolColumns) -> RankingKeys:
        """The ranking keys at the moment of ``columns``."""
        ranked = columns.ranked
        every = (columns.scores, columns.priorities, columns.base_scores, columns.posteriors)
        return RankingKeys(self._keys(columns.states[ranked], *(column[ranked] for column in every)), ranked)

    def sort(self, items: Sequence[PoolItem]) -> list[PoolItem]:
        """The items, best first."""
        return [item for item, _ in self.ranked(items)]

    def ranked(self, items: Sequence[PoolItem]) -> list[tuple[PoolItem, float]]:
        """The items, best first, each with the key that it is sorted by."""
        items = sorted(items, key=tie_key)
        columns = (
            [np.nan if it.reranker_score is None else it.reranker_score for it in items],
            [it.priority_value for it in items],
            [max(it.sources.values(), default=0.0) for it in items],
            [np.nan if it.posterior is None else it.posterior for it in items],
        )
        states = np.array([CODE[item.state] for item in items], dtype=np.int8)
        keys = self._keys(states, *(np.array(column, dtype=float) for column in columns))
        order = np.argsort(-keys, kind="stable")
        return [(items[i], key) for i, key in zip(order.tolist(), keys[order].tolist(), strict=True)]

    def _keys(
        self,
        states: NDArray[np.int8],
        scores: FloatArray,
        priorities: FloatArray,
        base: FloatArray,
        posteriors: FloatArray,
    ) -> FloatArray:
        keys = self.keys_of(scores, priorities, base, posteriors)
        is_lost = (states == DROPPED) & np.isnan(scores)
        is_fused = self is Ordering.POSTERIOR and not np.isnan(posteriors).all()
        if self is Ordering.FINAL_SCORE or is_fused or not is_lost.any():
            return keys
        return _lost_in_place(keys, is_lost)  # the rest stands behind all scores, in first-stage order

    def keys_of(
        self, scores: FloatArray, priorities: FloatArray, base: FloatArray, posteriors: FloatArray
    ) -> FloatArray:
        """Keys of n documents, of one moment or of many: arrays of shape (..., n), NaN where there is no number."""
        if self is Ordering.POSTERIOR and not (is_unfused := np.isnan(posteriors)).all():
            return _behind(posteriors, is_unfused)
        is_unscored = np.isnan(scores)
        if self is not Ordering.FINAL_SCORE:
            return _behind(scores, is_unscored)
        return np.where(is_unscored, np.where(priorities > 0, priorities, base), scores)


def _lost_in_place(keys: FloatArray, is_lost: NDArray[np.bool_]) -> FloatArray:
    """Keys by which each lost document has the rank that it had in the first stage, and the others keep their order."""
    others = np.sort(keys[~is_lost])[::-1]
    before = np.concatenate(([others[0] + 1.0], others)) if len(others) else np.ones(1)
    after = np.concatenate((others, [before[-1] - 1.0]))
    ahead = (~is_lost).cumsum()[is_lost]  # others that stand before each lost one
    first = np.searchsorted(ahead, ahead)
    share = (np.arange(1, len(ahead) + 1) - first) / (np.bincount(ahead)[ahead] + 1)
    placed = keys.copy()
    placed[is_lost] = before[ahead] + share * (after[ahead] - before[ahead])
    return placed


def _behind(keys: FloatArray, last: NDArray[np.bool_]) -> FloatArray:
    """The keys with those of ``last`` replaced by values below all others, falling in the documents' own order."""
    if not last.any():
        return keys
    lowest = np.where(last, 0.0, keys).min(axis=-1, keepdims=True, initial=0.0)  # in a third of what ``where=`` takes
    return np.where(last, lowest - last.cumsum(axis=-1), keys)


def documents_at(roster: Roster, positions: IntArray, keys: FloatArray, scores: FloatArray) -> Entries[ScoredDocument]:
    """The documents at these positions, best first, with keys and reranker's scores (NaN for none) of shape (m,)."""
    places = positions.tolist()
    doc_ids = [roster.doc_ids[i] for i in places]
    return Entries(doc_ids, roster.tokens, partial(_document, roster.items, places, keys, scores), positions)


def _document(
    items: Sequence[PoolItem], places: Sequence[int], keys: FloatArray, scores: FloatArray, i: int
) -> ScoredDocument:
    score = float(scores[i])
    return handed_out(items[places[i]], float(keys[i]), score if score == score else None)  # NaN differs from itself


def handed_out(item: PoolItem, key: float, reranker_score: float | None) -> ScoredDocument:
    """The document of an item, with the key that it is sorted by as its score."""
    return ScoredDocument(
        id=item.doc_id,
        content=item.content,
        metadata=item.metadata,
        score=key,
        original_score=item.retrieval_score,
        reranker_score=reranker_score,
        fusion_score=item.fusion_score,
        token_count=item.token_count,
        sources=item.sources,
    )


def best_that_fit(ordering: Ordering, items: Sequence[PoolItem], context: RAGtuneContext) -> list[ScoredDocument]:
    """The items best first while their tokens fit; an item that does not fit is skipped for shorter ones behind it."""
    return [
        handed_out(item, key, item.reranker_score)
        for item, key in ordering.ranked(items)
        if context.tracker.try_consume_tokens(item.token_count)
    ]
