"""Tournaments of groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ragtune.core.arguments import check_count
from ragtune.core.pool.items import PoolItem
from ragtune.estimators.comparing._windows import Ask, Play, WindowEstimator, best_first

_STAGES = ((50, 20), (20, 10), (10, 20), (5, 10), (2, 5))
"""Documents that go on from each stage, and documents of a group in it."""


class TourRankEstimator(WindowEstimator):
    """TourRank (Chen et al., WWW 2025): groups of documents play stages of 100 to 50 to 20 to 10 to 5 to 2, and who
    goes on gains a point; points add up over the tournaments.

    The groups of a stage take every g-th document of what is left, best first, so that each has its share of the good
    ones. For 100 documents a tournament is 5 + 5 + 1 + 1 + 1 = 13 calls; a shorter list enters at the first stage that
    is smaller than it.

    Differences: a call gives an order, of which only who goes on counts, as in the paper's prompt. A tournament begins
    at the order by the points so far. The published code begins each at the first stage's order and shuffles every
    group anew. Here a prompt has one answer, so such a tournament would largely repeat the first one. Groups come one
    after the other. Of a group whose call
    failed, those that stand first go on. Where the budget ends within a stage, its points do not count yet: others had
    no chance to gain one. The documents of each group that has played share the places that they had, those first that
    go on. The first stage of the first tournament is the policy's first round.
    """

    def __init__(self, tournaments: int = 10) -> None:
        super().__init__()
        self.tournaments = check_count("estimator.tournaments", tournaments, low=1)

    def play(self, items: Sequence[PoolItem], calls: Callable[[], int | None]) -> Play:
        points = np.zeros(len(items), dtype=int)
        for _ in range(self.tournaments):
            alive = best_first(points)
            for goes_on, size in _STAGES:
                if len(alive) <= goes_on:
                    continue
                count = -(-len(alive) // size)
                winners, passed = list[int](), list[int]()
                ranking, is_first = best_first(points), not points.any()
                for group in (alive[i::count] for i in range(count)):
                    verdict = yield Ask(group, ranking, opens=is_first)
                    best = list(verdict.order[: -(-goes_on // count)])
                    winners += best
                    if verdict.has_failed:
                        passed += best
                    else:
                        points[best] += 1
                        ranking = _among_their_places(ranking, group, best)
                if len(passed) < len(winners):  # else nothing was compared that their points would keep up with
                    points[passed] += 1
                alive = [position for position in alive if position in winners]
        return best_first(points)


def _among_their_places(ranking: Sequence[int], group: Sequence[int], best: Sequence[int]) -> list[int]:
    """The ranking in which a group's best documents have the first of the group's places, and the rest the others."""
    members = [position for position in ranking if position in group]
    ordered = iter(sorted(members, key=lambda position: position not in best))
    return [next(ordered) if position in group else position for position in ranking]
