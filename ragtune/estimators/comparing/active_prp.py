"""Knock-out groups by pairs, and bubbles over what leads."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ragtune.core.pool.items import PoolItem
from ragtune.estimators.comparing._windows import Ask, Play
from ragtune.estimators.comparing.knockout import KnockoutEstimator


class ActivePRPEstimator(KnockoutEstimator):
    """Active PRP (Figueiredo Paschmann et al., "Active Learners as Efficient PRP Rerankers", arXiv 2605.14236): the
    order of :class:`~ragtune.estimators.comparing.knockout.KnockoutEstimator` is the start of bubble sort over its
    first 2k documents, which repairs what a noisy comparison has cost a champion.

    A pass goes from the end of that prefix to the next place of the top k, a pair a call, and starts one pair further
    up for each pair before its first exchange. The published code calls it "Mohajer + Bubble"; its means for 100
    documents are 344 and 378 comparisons on TREC DL 2019 and 2020. A pair may be asked again, as in the published code.

    The paper's oracle asks for each pair once, in a random direction, so that position bias becomes noise of mean zero:
    set ``reranker.shuffled=true`` for it. A failed call leaves its pair as it stands. Difference: the first pass leaves
    out the pair at the end of the prefix, which the knock-out may just have compared.
    """

    def play(self, items: Sequence[PoolItem], calls: Callable[[], int | None]) -> Play:
        order = list((yield from super().play(items, calls)))
        bottom = min(len(order), 2 * self.top_k) - 3
        last = bottom
        for place in range(min(self.top_k, bottom + 1)):
            at, has_changed = max(last, place), False
            while True:
                verdict = yield Ask(order[at : at + 2], order)
                if verdict.order[0] != order[at]:
                    order[at : at + 2] = verdict.order
                    last += not has_changed and last != bottom
                    has_changed = True
                if at == place:
                    break
                last -= not has_changed
                at -= 1
        return order
