"""Partitions by a pivot."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ragtune.core.arguments import check_count
from ragtune.core.pool.items import PoolItem
from ragtune.estimators.comparing._windows import Ask, Play, WindowEstimator, by_halves


class TDPartEstimator(WindowEstimator):
    """Top-down partitioning (Parry, MacAvaney and Ganguly, arXiv 2405.14589): the first window is put in order, its
    document at rank k is the pivot, and the rest of the list is compared with the pivot in windows of w - 1.

    What beats the pivot joins the k - 1 documents above it, until there are w of them or the list ends; then these are
    partitioned in the same way. The paper's symbols: w is ``window``, k is ``top_k``, and its budget of candidates is
    w.

    Differences: the windows of a round come one after the other, where the paper sends them at once. A round ends the
    search where all candidates fit into one window, once that is in order; the published code partitions them again.
    """

    def __init__(self, window: int = 20, top_k: int = 10) -> None:
        super().__init__(window)
        self.top_k = check_count("estimator.top_k", top_k, low=1, high=self.window - 1)

    def play(self, items: Sequence[PoolItem], calls: Callable[[], int | None]) -> Play:
        candidates, behind = list(range(len(items))), list[int]()
        while True:
            first, rest = candidates[: self.window], candidates[self.window :]
            first = list((yield from by_halves(Ask(first, candidates + behind))).order)
            if not rest:
                return first + behind
            above, pivot, below = first[: self.top_k - 1], first[self.top_k - 1], first[self.top_k :]
            kept = len(above)
            while rest and len(above) < self.window:
                shown, left = rest[: self.window - 1], rest[self.window - 1 :]
                order = list((yield Ask([pivot, *shown], [*above, pivot, *below, *rest, *behind])).order)
                at = order.index(pivot)
                above, below, rest = above + order[:at], below + order[at + 1 :], left
            behind = [*above[self.window :], pivot, *below, *rest, *behind]
            candidates = above[: self.window]
            if len(above) == kept:  # nothing has beaten the pivot: the first window's order stands
                return candidates + behind
