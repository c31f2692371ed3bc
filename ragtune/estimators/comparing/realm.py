"""Gaussian relevance, refined around pivots."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from math import erfc, exp, log, pi, sqrt
from typing import NamedTuple

from ragtune.core.arguments import check_number
from ragtune.core.pool.items import PoolItem
from ragtune.core.statistics import RankPlaces
from ragtune.estimators.comparing._windows import Ask, Play, WindowEstimator, WindowVerdict

_MEAN, _DEVIATION = 25.0, 25.0 / 3.0
"""TrueSkill's rating of a player of whom nothing is known."""

_STEP = 0.001  # by which a document's rating begins below that of the document before it
_STABLE = 0.95  # Kendall's tau of a part's order before and after, above which it is not divided any further


class REALMEstimator(WindowEstimator):
    """REALM (Wang et al., EMNLP 2025, arXiv 2508.18379): documents have Gaussian ratings, and a quicksort whose pivot
    is the most certain document refines only the part of the list that decides the top k.

    A part of the list is compared with its pivot, ``window - 1`` documents a call. With probability p that a document
    is better than the pivot, its rating is the mixture of TrueSkill's ratings after a win (p) and a loss (1 - p), by
    mean and variance; p is the sigmoid of the difference of their logits, divided by ``temperature``. The pivot's
    rating is the mean of the ratings that it would have after each single comparison, weighted by precision. The part
    is sorted by ratings and divided at (2 i + m) / 3, where i is the pivot's place and m the middle. A part ends where
    it lies within the top k, begins behind it, or keeps its order (Kendall's tau above 0.95). For n documents the first
    pass takes (n - 1) / (window - 1) calls, rounded up; it is the policy's first round.

    Source: the published code. Differences: it has the logits of the model's options and a temperature of 34 for
    Flan-T5; of an answer only the order counts here, and the logit of rank r is -ln r. Its tau compares document ids by
    position, here it compares the two orders. It leaves a list of at most k documents as it is, here every list gets
    its first pass. A document whose call failed keeps its rating.
    """

    def __init__(self, window: int = 3, top_k: int = 10, temperature: float = 1.0) -> None:
        super().__init__(window, top_k)
        self.temperature = check_number("estimator.temperature", temperature, low=1e-9)

    def play(self, items: Sequence[PoolItem], calls: Callable[[], int | None]) -> Play:
        order = list(range(len(items)))
        ratings = [_Rating(_MEAN - _STEP * position, _DEVIATION**2) for position in order]
        parts = [(0, len(order))] if len(order) > 1 else []
        while parts:
            low, high = parts.pop()
            before, is_first = order[low:high], high - low == len(order)
            pivot = min(before, key=lambda position: ratings[position].variance)
            yield from self._compared(order, low, high, pivot, ratings, opens=is_first)
            order[low:high] = after = _sorted(order[low:high], ratings)
            if RankPlaces.of([(after, before)], len(before)).kendall_tau()[0] > _STABLE:
                continue
            divide = (2 * (low + after.index(pivot)) + (low + high - 1) // 2) // 3
            divided = (divide + 1, high), (low, divide)
            parts += [(a, b) for a, b in divided if a < self.top_k < b and b - a > 1]
        return order

    def _compared(
        self, order: Sequence[int], low: int, high: int, pivot: int, ratings: list[_Rating], opens: bool
    ) -> Generator[Ask, WindowVerdict, None]:
        """Rate the documents of a part by calls that show them beside the pivot, and then the pivot."""
        others, clones = [position for position in order[low:high] if position != pivot], list[_Rating]()
        for start in range(0, len(others), self.window - 1):
            window = [*others[start : start + self.window - 1], pivot]
            shown = [*order[:low], *_sorted(order[low:high], ratings), *order[high:]]
            verdict = yield Ask(window, shown, opens)
            logits = {position: -log(rank) for rank, tier in enumerate(verdict.tiers, 1) for position in tier}
            for position in window[:-1]:
                if position in logits and pivot in logits:
                    better = 1.0 / (1.0 + exp((logits[pivot] - logits[position]) / self.temperature))
                    ratings[position] = ratings[position].against(ratings[pivot], better)
                    clones.append(ratings[pivot].against(ratings[position], 1.0 - better))
        if clones:
            precision = sum(1.0 / clone.variance for clone in clones)
            mean = sum(clone.mean / clone.variance for clone in clones) / precision
            ratings[pivot] = _Rating(mean, len(clones) / precision)


class _Rating(NamedTuple):
    """A document's relevance as a normal distribution, on TrueSkill's scale."""

    mean: float
    variance: float

    def against(self, other: _Rating, better: float) -> _Rating:
        """This rating after a comparison that it has won with probability ``better``: the two outcomes' mixture."""
        won, lost = self._after(other, 1.0), self._after(other, -1.0)
        mean = better * won.mean + (1.0 - better) * lost.mean
        second = better * (won.variance + won.mean**2) + (1.0 - better) * (lost.variance + lost.mean**2)
        return _Rating(mean, max(1e-9, second - mean**2))

    def _after(self, other: _Rating, sign: float) -> _Rating:
        """TrueSkill's rating (Herbrich, Minka and Graepel, NIPS 2006) after a win, sign 1, or a loss, -1."""
        drift, noise, margin = (_MEAN / 300.0) ** 2, (_MEAN / 6.0) ** 2, 0.12566134685507416  # of 10% draws
        variance = self.variance + drift
        scale = sqrt(2.0 * noise + variance + other.variance + drift)
        t = sign * (self.mean - other.mean) / scale - margin * sqrt(2.0 * noise) / scale
        v = exp(-t * t / 2.0) / sqrt(2.0 * pi) / max(0.5 * erfc(-t / sqrt(2.0)), 1e-300)
        return _Rating(self.mean + sign * variance / scale * v, variance * (1.0 - variance / scale**2 * v * (v + t)))


def _sorted(part: Sequence[int], ratings: Sequence[_Rating]) -> list[int]:
    return sorted(part, key=lambda position: -ratings[position].mean)
