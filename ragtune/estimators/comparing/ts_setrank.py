"""Thompson sampling over sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ragtune.core.arguments import check_count, check_number
from ragtune.core.pool.columns import unit_interval
from ragtune.core.pool.items import PoolItem
from ragtune.estimators.comparing._windows import Ask, Play, WindowEstimator, best_first

_PRIOR = 0.5  # pseudo-observations by which the first stage's score moves the uniform prior


class TSSetRankEstimator(WindowEstimator):
    """TS-SetRank (Huang et al., "Contextual Relevance and Adaptive Sampling", arXiv 2511.01208): a document's relevance
    is the probability that a call picks it, over the sets that it may be shown in, with a Beta posterior.

    Phase 1 shows random sets. Phase 2 draws a value from each posterior and shows the ``window`` documents with the
    highest ones. A picked document gains one success, a shown and not picked one a failure: alpha + 1 or beta + 1. The
    ranking is by alpha / (alpha + beta). Priors are alpha = 1 + s / 2 and beta = 1 + (1 - s) / 2 with s the first
    stage's score in [0, 1]. The published code has T = 100 ``rounds``, and ``explore`` = 0.2 of them are phase 1; fewer
    calls keep the share.

    Difference: its prompt asks for all relevant passages of a set, and an order has no such answer, so that the first
    ``picked`` of an order count as picked, those that were told apart from the last. The random order within a set is
    ``reranker.shuffled=true``. A failed call is no observation.
    """

    def __init__(
        self, window: int = 10, rounds: int = 100, explore: float = 0.2, picked: int = 3, seed: int = 0
    ) -> None:
        super().__init__(window)
        self.rounds = check_count("estimator.rounds", rounds, low=1)
        self.explore = check_number("estimator.explore", explore, low=0.0, high=1.0)
        self.picked = check_count("estimator.picked", picked, low=1)
        self.seed = check_count("estimator.seed", seed)

    def play(self, items: Sequence[PoolItem], calls: Callable[[], int | None]) -> Play:
        rng, allowed = np.random.default_rng(self.seed), calls()
        rounds = self.rounds if allowed is None else min(self.rounds, max(1, allowed))  # the last window may be cut
        scores = unit_interval(np.array([item.retrieval_score for item in items]))
        alpha, beta = 1.0 + _PRIOR * scores, 1.0 + _PRIOR * (1.0 - scores)
        for called in range(rounds if len(items) > 1 else 0):
            is_first_phase = called < round(self.explore * rounds)
            drawn = rng.random(len(items)) if is_first_phase else rng.beta(alpha, beta)
            verdict = yield Ask(best_first(drawn)[: self.window], best_first(alpha / (alpha + beta)))
            if len(verdict.tiers) > 1:
                judged = [position for tier in verdict.tiers for position in tier]
                chosen = [position for tier in verdict.tiers[:-1] for position in tier][: self.picked]
                alpha[chosen] += 1.0
                beta[[position for position in judged if position not in chosen]] += 1.0
        return best_first(alpha / (alpha + beta))
