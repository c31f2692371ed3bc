"""Insertions into a guarded top k."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

from ragtune.core.pool.items import PoolItem
from ragtune.estimators.comparing._windows import Ask, Play, WindowEstimator, WindowVerdict, by_halves


class SetwiseInsertionEstimator(WindowEstimator):
    """Setwise insertion (Podolak et al., arXiv 2504.10509): the worst of the top k guards it; a call shows the guard
    and the next chunk of the list, and only what beats the guard is inserted.

    A challenger rises from the end of the top k by windows that end with it, as long as it is the best of them. Both
    kinds of answer serve: where only the best is told (``max_compare``), it is the challenger, the guard goes, and the
    others are looked at again; where all are told (``sort_compare``), those behind the guard go with it.

    Differences: the first top k is put in order by insertions into a first window where that is told completely, and
    else by selecting the best of what is left again and again, where the published code uses heap sort. What went is
    ranked as it went. Where only the best is told, a challenger that is not the best of its window stays behind it, as
    in the published code, which is its place but for the size of a window.
    """

    def __init__(self, window: int = 4, top_k: int = 10) -> None:
        super().__init__(window, top_k)

    def play(self, items: Sequence[PoolItem], calls: Callable[[], int | None]) -> Play:
        everything = list(range(len(items)))
        first = everything[: min(self.window, self.top_k)]
        passed, gone = list[int](), list[int]()
        verdict = (
            (yield from by_halves(Ask(first, everything, opens=True)))
            if len(first) > 1
            else WindowVerdict(first, [first])
        )
        top = [position for tier in verdict.tiers for position in tier]
        wanted = len(top) if verdict.has_failed else len(first)
        if top and len(verdict.tiers) == wanted:
            waiting = [position for position in everything if position not in top]
        else:
            top, waiting = yield from self._selected(everything, verdict.order[0])
        while len(top) < min(self.top_k, len(items)):
            challenger, *waiting = waiting
            top = yield from self._inserted(top, challenger, waiting, opens=True)
        while waiting:
            guard, chunk, left = top[-1], waiting[: self.window - 1], waiting[self.window - 1 :]
            verdict = yield Ask([guard, *chunk], [*top, *passed, *waiting, *gone])
            if verdict.has_failed:  # nothing is known of them, so they keep their order
                waiting, passed = left, [*passed, *chunk]
                continue
            level = next((i for i, tier in enumerate(verdict.tiers) if guard in tier), 0)
            better = [position for tier in verdict.tiers[:level] for position in tier]
            behind = [position for position in verdict.order if position not in (*better, guard)]
            if not better:
                waiting, gone = left, [*behind, *gone]
                continue
            alike = [position for position in verdict.tiers[level] if position != guard]
            gone = [guard, *(position for position in behind if position not in alike), *gone]
            waiting = [*better[1:], *alike, *left]
            top = yield from self._inserted(top[:-1], better[0], [*passed, *waiting, *gone])
        return [*top, *passed, *gone]

    def _selected(
        self, everything: Sequence[int], champion: int
    ) -> Generator[Ask, WindowVerdict, tuple[list[int], list[int]]]:
        """The first top k, the best of what is left at a time, and the rest; ``champion`` leads the first window."""
        left, waiting, top = list(everything[: self.top_k]), list(everything[self.top_k :]), list[int]()
        rivals = left[self.window :]
        while left:
            while rivals:
                window = [champion, *rivals[: self.window - 1]]
                champion = (yield Ask(window, [*top, *left, *waiting], opens=True)).order[0]
                rivals = rivals[self.window - 1 :]
            top.append(champion)
            left.remove(champion)
            champion, rivals = (left[0], left[1:]) if left else (champion, [])
        return top, waiting

    def _inserted(
        self, top: Sequence[int], challenger: int, behind: Sequence[int], opens: bool = False
    ) -> Generator[Ask, WindowVerdict, list[int]]:
        order, at = [*top, challenger], len(top)
        while at > 0:
            start = max(0, at + 1 - self.window)
            order[start : at + 1] = (yield Ask(order[start : at + 1], [*order, *behind], opens)).order
            if order[start] != challenger:
                break
            at = start
        return order
