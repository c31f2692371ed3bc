"""A window that slides up the list."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ragtune.core.arguments import check_count
from ragtune.core.pool.items import PoolItem
from ragtune.estimators.comparing._windows import Ask, Play, WindowEstimator


class SlidingEstimator(WindowEstimator):
    """RankGPT's sliding window (Sun et al., EMNLP 2023): the window moves from the end of the list to its front, each
    time by ``step``, so that the best ``window - step`` of one are shown again in the next.

    The baseline of listwise reranking: 100 documents in windows of 20 by steps of 10 take 9 calls. Under a limit of c
    calls it goes over as many documents as c calls reach, window + (c - 1) step, the first stage's best: from further
    down, the last calls that bring them to the front would be missing. A limit on documents is one of as many full
    windows; how many calls other limits allow is not known beforehand.
    """

    def __init__(self, window: int = 20, step: int = 10, depth: int = 100) -> None:
        super().__init__(window)
        self.step = check_count("estimator.step", step, low=1, high=self.window - 1)
        self.depth = check_count("estimator.depth", depth, low=2)

    def play(self, items: Sequence[PoolItem], calls: Callable[[], int | None]) -> Play:
        order = list(range(len(items)))
        allowed = calls()
        reach = len(items) if allowed is None else self.window + (allowed - 1) * self.step
        for start in [*range(min(len(items), self.depth, reach) - self.window, 0, -self.step), 0]:
            end = start + self.window
            order[start:end] = (yield Ask(order[start:end], order, opens=True)).order
        return order
