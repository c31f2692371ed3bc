"""Final orders, and the one implementation of the tie-breaking rule for them (design, section 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from ragtune.core.arrays import FloatArray, IntArray
from ragtune.core.columns import PoolColumns
from ragtune.core.errors import ConfigError
from ragtune.core.items import PoolItem
from ragtune.core.pool import CandidatePool


@dataclass(frozen=True)
class RankingKeys:
    """What a ranking is sorted by: tier, then score, both descending; then position in tie-breaking order.

    Attributes:
        tier: shape (m,), the coarse key.
        score: shape (m,), the fine key.
        positions: shape (m,), the documents that take part (the active ones), ascending.
    """

    tier: NDArray[np.int8]
    score: FloatArray
    positions: IntArray

    def argsort(self) -> IntArray:
        """The participating positions, best first."""
        return self.positions[np.lexsort((-self.score, -self.tier))]


class Ordering(str, Enum):
    """How the final list is ordered.

    - ``final_score``: reranker score, else positive priority, else best source score (0.54 invariant 8);
    - ``reranked_first``: reranked documents by their score, then the rest in first-stage order (the classic order);
    - ``posterior``: the estimator's key after all evidence; from an estimator that gives none, ``reranked_first``.
    """

    FINAL_SCORE = "final_score"
    RERANKED_FIRST = "reranked_first"
    POSTERIOR = "posterior"

    @classmethod
    def parse(cls, value: Ordering | str) -> Ordering:
        """The ordering of that name.

        Raises:
            ConfigError: naming the value and the allowed ones.
        """
        try:
            return cls(value)
        except ValueError:
            allowed = ", ".join(o.value for o in cls)
            raise ConfigError(f"unknown ordering {value!r}: allowed are {allowed}") from None

    def keys(self, pool: CandidatePool) -> RankingKeys:
        """The pool's ranking keys as of now; O(n), and a copy, so later changes do not reach it."""
        return self.keys_at(pool.columns())

    def keys_at(self, columns: PoolColumns) -> RankingKeys:
        """The ranking keys at the moment of ``columns``."""
        active = columns.active
        every = (columns.scores, columns.priorities, columns.base_scores, columns.posteriors)
        tier, score = self._key_columns(*(column[active] for column in every))
        return RankingKeys(tier, score, active)

    def sort(self, items: Sequence[PoolItem]) -> list[PoolItem]:
        """The items, best first."""
        items = sorted(items, key=PoolItem.tie_key)
        columns = (
            [np.nan if it.reranker_score is None else it.reranker_score for it in items],
            [it.priority_value for it in items],
            [max(it.sources.values(), default=0.0) for it in items],
            [np.nan if it.posterior is None else it.posterior for it in items],
        )
        tier, score = self._key_columns(*(np.array(column, dtype=float) for column in columns))
        return [items[i] for i in RankingKeys(tier, score, np.arange(len(items))).argsort()]

    def _key_columns(
        self, scores: FloatArray, priorities: FloatArray, base: FloatArray, posteriors: FloatArray
    ) -> tuple[NDArray[np.int8], FloatArray]:
        scored = ~np.isnan(scores)
        fused = ~np.isnan(posteriors)
        if self is Ordering.POSTERIOR and fused.any():
            return fused.astype(np.int8), np.where(fused, posteriors, 0.0)
        if self is not Ordering.FINAL_SCORE:
            return scored.astype(np.int8), np.where(scored, scores, 0.0)
        final = np.where(scored, scores, np.where(priorities > 0, priorities, base))
        return np.zeros(len(final), dtype=np.int8), final
