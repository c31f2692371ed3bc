"""Windows of the documents whose place in the top is uncertain, by TrueSkill ratings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragtune.core.arguments import check_count, check_number
from ragtune.core.arrays import FloatArray
from ragtune.core.errors import ConfigError
from ragtune.core.policy.scaling import tail
from ragtune.core.pool.items import PoolItem
from ragtune.estimators.comparing._windows import Ask, Play, WindowEstimator, WindowVerdict, best_first, by_halves

_MEAN = 25.0
"""TrueSkill's own mean of a rating, to which its performance noise is scaled: here that of the best document."""

_LOW = 0.001 * _MEAN  # least mean of a rating: its deviation is a third of it, and must be above 0


class AcuRankEstimator(WindowEstimator):
    """AcuRank (Yoon et al., NeurIPS 2025): every document has a TrueSkill rating, and only those are compared further
    of which it is uncertain whether they belong to the top k.

    A rating begins at the first stage's score with a third of it as deviation. One pass goes over the list in windows;
    after it, t is where the expected number of ratings above t is k, and the documents with eps < P(rating > t) < 1 -
    eps are compared in windows by that probability, round by round. Where fewer than ``uncertain`` are left, all with
    P > eps are compared once more, and it ends. The paper's symbols: eps is ``tolerance`` (0.01; 1e-4 for its precise
    variant), k is ``top_k``.

    Differences: scores are scaled so that the best one is TrueSkill's mean of 25 and none is below 0, which makes the
    method independent of the first stage's scale. Ties of a setwise call are draws. A last window of one document is
    left out. A round that tells no two documents apart is the last one: draws alone would go on for thousands of calls.
    """

    def __init__(self, window: int = 20, top_k: int = 10, tolerance: float = 0.01, uncertain: int = 10) -> None:
        super().__init__(window, top_k)
        self.tolerance = check_number("estimator.tolerance", tolerance, low=1e-12, high=0.5)
        self.uncertain = check_count("estimator.uncertain", uncertain)

    def prepare(self) -> None:
        _trueskill()

    def play(self, items: Sequence[PoolItem], calls: Callable[[], int | None]) -> Play:
        ratings = _Ratings(items)
        for window in self._windows(list(range(len(items)))):
            ratings.learn((yield Ask(window, best_first(ratings.means), opens=True)))
        is_last = False
        while not is_last:
            above = ratings.above(self.top_k)
            certain = (above <= self.tolerance) | (above >= 1.0 - self.tolerance)
            is_last = bool((~certain).sum() < self.uncertain)
            if is_last:
                certain = above <= self.tolerance
            windows = self._windows([position for position in best_first(above) if not certain[position]])
            says_nothing = True
            for window in windows:
                verdict = yield from by_halves(Ask(window, best_first(ratings.means)))
                ratings.learn(verdict)
                says_nothing &= len(verdict.tiers) < 2
            is_last |= says_nothing
        return best_first(ratings.means)

    def _windows(self, positions: Sequence[int]) -> list[Sequence[int]]:
        cut = [positions[start : start + self.window] for start in range(0, len(positions), self.window)]
        return [window for window in cut if len(window) > 1]


class _Ratings:
    """TrueSkill ratings (Herbrich, Minka and Graepel, NIPS 2006) of n documents, each a player of its own."""

    def __init__(self, items: Sequence[PoolItem]) -> None:
        library = _trueskill()
        self._environment = library.TrueSkill()
        scores = np.array([item.retrieval_score for item in items])
        scores = scores - min(0.0, float(scores.min()))
        means = np.maximum(scores * (_MEAN / (float(scores.max()) or 1.0)), _LOW)
        self._ratings = [self._environment.create_rating(mean, mean / 3.0) for mean in means.tolist()]

    @property
    def means(self) -> FloatArray:
        return np.array([rating.mu for rating in self._ratings])

    def learn(self, verdict: WindowVerdict) -> None:
        """Rate the judged documents of a window by their tiers."""
        ranks = {position: rank for rank, tier in enumerate(verdict.tiers) for position in tier}
        if len(ranks) < 2:
            return
        rated = self._environment.rate([(self._ratings[position],) for position in ranks], ranks=list(ranks.values()))
        for position, (rating,) in zip(ranks, rated, strict=True):
            self._ratings[position] = rating

    def above(self, k: int) -> FloatArray:
        """P(rating > t) with t such that the probabilities add up to k, by bisection; all 1 where there are but k."""
        deviations: NDArray[np.float64] = np.array([rating.sigma for rating in self._ratings])
        means = self.means
        if len(means) <= k:
            return np.ones(len(means))
        low, high = float((means - 9.0 * deviations).min()), float((means + 9.0 * deviations).max())
        for _ in range(60):
            middle = (low + high) / 2.0
            if tail((middle - means) / deviations).sum() > k:
                low = middle
            else:
                high = middle
        return tail((low - means) / deviations)


def _trueskill() -> Any:
    try:
        import trueskill
    except ImportError as error:
        raise ConfigError("estimator 'acurank' needs the package trueskill: pip install 'ragtune[acurank]'") from error
    return trueskill
