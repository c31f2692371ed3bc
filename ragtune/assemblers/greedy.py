"""Greedy assembly under the token budget."""

from __future__ import annotations

from ragtune.core.interfaces import BaseAssembler
from ragtune.core.pool.ordering import Ordering


class GreedyAssembler(BaseAssembler):
    """Takes documents best first while their tokens fit (rule A1).

    A document that does not fit is skipped and shorter ones behind it still get their chance, so the budget is used
    as far as it goes.
    """

    def __init__(self, ordering: Ordering | str = Ordering.FINAL_SCORE) -> None:
        self.ordering = Ordering.parse(ordering)
