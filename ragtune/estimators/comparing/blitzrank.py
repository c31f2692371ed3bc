"""Windows by what a tournament graph does not know yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ragtune.core.pool.items import PoolItem
from ragtune.estimators.comparing._windows import Ask, Play, WindowEstimator, WindowVerdict, best_first, by_halves


class BlitzRankEstimator(WindowEstimator):
    """BlitzRank (arXiv 2602.05448): every pair that a window puts in order is an edge of a graph over the pool, and
    what follows from edges by transitivity is known without asking.

    Documents on a cycle contradict each other and are tied. A document is final once it reaches, or is reached by, all
    others. The next window takes one document of each tie that is not final, those with the fewest documents above them
    first, then those with the fewest below. It ends when the best m are final. The paper's symbols: k is ``window``,
    m is ``top_k``.

    Difference: the published code answers only when it has ended. Here there is an order at any time, by documents
    below less documents above (Copeland's score), ties in first-stage order; once the best m are final, it has them
    first.
    """

    def play(self, items: Sequence[PoolItem], calls: Callable[[], int | None]) -> Play:
        graph, unheard = TournamentGraph(len(items)), set[tuple[int, ...]]()
        while True:
            fewest = np.lexsort((graph.below, graph.above)).tolist()
            final = graph.related >= len(items) - 1
            if final[fewest[: self.top_k]].all():
                return graph.ranking
            window: list[int] = []
            for position in fewest:
                if not final[position] and not any(graph.tied(position, taken) for taken in window):
                    window.append(position)
                if len(window) == self.window:
                    break
            if tuple(window) in unheard:
                return graph.ranking
            verdict = yield from by_halves(Ask(window, graph.ranking))
            if verdict.has_failed:
                unheard.add(tuple(window))
            graph.learn(verdict)


class TournamentGraph:
    """Preferences over n documents, and by transitivity what follows from them: whether the row's ``reaches`` the
    column's, and the documents ``above``, ``below`` (ties aside) and ``related`` to each.
    """

    def __init__(self, n: int) -> None:
        self.reaches: NDArray[np.bool_] = np.zeros((n, n), dtype=bool)
        self._count()

    def learn(self, verdict: WindowVerdict) -> None:
        """Add the preferences of a window, and close the relation again."""
        for i, tier in enumerate(verdict.tiers[:-1]):
            for worse in verdict.tiers[i + 1]:
                for better in tier:
                    if not self.reaches[better, worse]:
                        self._prefer(better, worse)
        self._count()

    def tied(self, one: int, other: int) -> bool:
        return bool(self.reaches[one, other] and self.reaches[other, one])

    @property
    def ranking(self) -> list[int]:
        """All positions by Copeland's score, documents below less documents above."""
        return best_first(self.below - self.above)

    def _prefer(self, better: int, worse: int) -> None:
        sources, targets = self.reaches[:, better].copy(), self.reaches[worse].copy()
        sources[better] = targets[worse] = True
        self.reaches |= np.outer(sources, targets)

    def _count(self) -> None:
        tied = self.reaches & self.reaches.T
        strict = self.reaches & ~tied
        self.above, self.below = strict.sum(axis=0), strict.sum(axis=1)
        others = (self.reaches | self.reaches.T).copy()
        np.fill_diagonal(others, False)
        self.related = others.sum(axis=1)
