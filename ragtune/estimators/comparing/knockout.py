"""Knock-out groups by pairs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

from ragtune.core.pool.items import PoolItem
from ragtune.estimators.comparing._windows import Ask, Play, WindowEstimator, WindowVerdict


class KnockoutEstimator(WindowEstimator):
    """Budgeted pairwise reranking (IReranker, arXiv 2605.14236, after Mohajer, Suh and Elmahdy, ICML 2017): every k-th
    document of the list makes one of k groups, each group plays knock-out for its champion, and the champions are kept
    in order; the best one is taken, and its group plays for another.

    A call is one pair, in one order. The published code keeps the champions in a binary heap and shows a pair in random
    order; here they are kept sorted, a new one placed by bisection, and a pair is shown as it stands.
    """

    def __init__(self, top_k: int = 10) -> None:
        super().__init__(window=2, top_k=top_k)

    def play(self, items: Sequence[PoolItem], calls: Callable[[], int | None]) -> Play:
        groups = [list(range(start, len(items), self.top_k)) for start in range(min(self.top_k, len(items)))]
        taken: list[int] = []
        champions: list[int] = []
        for start in range(len(groups)):
            yield from self._champion(groups, start, taken, champions, opens=True)
        while champions and len(taken) < self.top_k:
            best = champions.pop(0)
            taken.append(best)
            group = groups[best % self.top_k]
            group.remove(best)
            if group:
                yield from self._champion(groups, best % self.top_k, taken, champions)
        return _ranking(groups, taken, champions)

    def _champion(
        self, groups: Sequence[Sequence[int]], at: int, taken: Sequence[int], champions: list[int], opens: bool = False
    ) -> Generator[Ask, WindowVerdict, None]:
        """Find the champion of a group and place it among the others."""
        playing = list(groups[at])
        while len(playing) > 1:
            through = []
            for one, other in zip(playing[::2], playing[1::2], strict=False):
                through.append((yield Ask([one, other], _ranking(groups, taken, champions), opens)).order[0])
            playing = through + playing[len(playing) - len(playing) % 2 :]
        low, high = 0, len(champions)
        while low < high:
            middle = (low + high) // 2
            rival = champions[middle]
            verdict = yield Ask([rival, playing[0]], _ranking(groups, taken, champions), opens)
            winner = min(rival, playing[0]) if verdict.has_failed else verdict.order[0]  # it failed: the first stage's
            low, high = (low, middle) if winner == playing[0] else (middle + 1, high)
        champions.insert(low, playing[0])


def _ranking(groups: Sequence[Sequence[int]], taken: Sequence[int], champions: Sequence[int]) -> list[int]:
    """What was taken, then the champions, then all others in first-stage order."""
    placed = {*taken, *champions}
    return [*taken, *champions, *sorted(position for group in groups for position in group if position not in placed)]
