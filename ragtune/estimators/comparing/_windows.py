"""What policies share that order the pool by comparing windows of it: a game of questions and verdicts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragtune.core.arguments import check_count
from ragtune.core.interfaces import BaseEstimator
from ragtune.core.policy.scaling import with_twins_level
from ragtune.core.pool.columns import CANDIDATE, RERANKED
from ragtune.core.pool.items import PoolItem, SentBatch
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.pool.valuation import Valuation
from ragtune.core.request.context import RAGtuneContext


class Ask(NamedTuple):
    """What a policy wants compared next, and what it would answer now; documents by their positions in the pool."""

    window: Sequence[int]  # in the order in which they are shown
    ranking: Sequence[int]  # of all documents, best first: the answer if no further call comes
    opens: bool = False  # the call belongs to the first round, whose outcome counts once the round is complete


class WindowVerdict(NamedTuple):
    """What a call said of a window: tiers of judged documents, best first, those together that were not told apart."""

    order: Sequence[int]  # the window, best first; documents of which nothing was said keep their places
    tiers: Sequence[Sequence[int]]
    has_failed: bool = False  # the call brought no score at all (rule F6)


Play = Generator[Ask, WindowVerdict, Sequence[int]]
"""A policy over one pool: it yields what it asks, is sent the verdicts, and returns its final ranking."""


def verdict_of(window: Sequence[int], scores: Mapping[int, float]) -> WindowVerdict:
    """The verdict on a window by the scores of its documents that were judged; equal scores say nothing."""
    judged = [position for position in window if position in scores]
    best_first = sorted(judged, key=lambda position: -scores[position])
    ordered = iter(best_first)
    tiers: list[list[int]] = []
    for position in best_first:
        if tiers and scores[tiers[-1][0]] == scores[position]:
            tiers[-1].append(position)
        else:
            tiers.append([position])
    return WindowVerdict([next(ordered) if position in scores else position for position in window], tiers)


def best_first(values: NDArray[Any]) -> list[int]:
    """Positions by value, the highest first; ties in first-stage order."""
    order: list[int] = np.argsort(-values, kind="stable").tolist()
    return order


def by_halves(ask: Ask) -> Generator[Ask, WindowVerdict, WindowVerdict]:
    """The verdict on a window; where the call fails, on its first half, and on half of that (rule F6)."""
    window, size = list(ask.window), len(ask.window)
    while size > 1:
        verdict = yield ask._replace(window=window[:size])
        if not verdict.has_failed:
            return WindowVerdict([*verdict.order, *window[size:]], verdict.tiers, size < len(window))
        size //= 2
    return WindowVerdict(window, [], has_failed=True)


def first_round(begin: Callable[[], Play]) -> tuple[int, int]:
    """The most documents and calls of a play's first round; windows in order and in reverse order are tried."""
    counts = []
    for direction in (1, -1):
        play, docs, calls = begin(), 0, 0
        with suppress(StopIteration):
            ask = next(play)
            while ask.opens:
                docs, calls = docs + len(ask.window), calls + 1
                order = list(ask.window)[::direction]
                ask = play.send(WindowVerdict(order, [[position] for position in order]))
        counts.append((docs, calls))
    return max(counts)


class Game:
    """One request's play. A copy plays its verdicts again before it goes on, since a running play cannot be copied."""

    def __init__(self, begin: Callable[[], Play]) -> None:
        self.begin = begin
        self._verdicts: list[WindowVerdict] = []
        self._play: Play | None = begin()
        self.heard = 0  # batches taken in
        self.offered = 0  # documents of the requested window that could be sent
        self.is_cut = False  # a window of the first round was sent without some of these, for want of budget
        self.ask = Ask((), ())  # the latest question; its window is empty once the play is over
        self._advance(None)

    def hear(self, batches: Sequence[SentBatch]) -> None:
        """Take in the scores of the new batches, and go on to the next question."""
        for batch in batches[self.heard :]:
            self.heard += 1
            self.is_cut |= self.ask.opens and len(batch.positions) < self.offered
            known = zip(batch.positions.tolist(), batch.scores.tolist(), strict=True)
            scores = {at: score for at, score in known if score == score}
            self._go_on(scores, has_failed=not scores)

    def pass_over(self) -> None:
        """Go on as if the window could not be compared."""
        self._go_on({})

    def __deepcopy__(self, memo: dict[int, Any]) -> Game:
        twin = copy(self)
        twin._verdicts, twin._play = list(self._verdicts), None
        return twin

    def _go_on(self, scores: Mapping[int, float], *, has_failed: bool = False) -> None:
        if not self.ask.window:
            return
        if self._play is None:
            self._play = self.begin()
            for verdict in (None, *self._verdicts):
                self._advance(verdict)
        self._verdicts.append(verdict_of(self.ask.window, scores)._replace(has_failed=has_failed))
        self._advance(self._verdicts[-1])

    def _advance(self, verdict: WindowVerdict | None) -> None:
        """Hand a verdict to the play, None at its beginning, and note what it asks next."""
        assert self._play is not None  # noqa: S101
        try:
            ask = next(self._play) if verdict is None else self._play.send(verdict)
        except StopIteration as end:
            ask = Ask((), end.value)
        if verdict is not None and list(ask.window) == list(self.ask.window):
            ask = Ask((), ask.ranking)  # the same question has the same answer
        self.ask = Ask(tuple(ask.window), tuple(ask.ranking), ask.opens)


class WindowEstimator(BaseEstimator):
    """Base of policies that order the pool by comparing windows of it, a window a call.

    A policy is its :meth:`play`. Its present ranking is the pool's order (``ordering=posterior``) and, as 1 / (1 + r)
    by rank r from 1, the documents' values; what it asks next goes to scheduler ``windows`` as
    :attr:`Valuation.window <ragtune.core.pool.valuation.Valuation>`. The reranker's scores count within their batch
    only, so a reranker that compares serves as well as one that scores; one that tells only the best of a batch apart
    (setwise) gives the others equal scores. Documents that an expander finds later are ranked last and not compared.
    What it needs before its ranking says something is its first round (:attr:`Ask.opens`).
    """

    compares = True

    def __init__(self, window: int = 20, top_k: int = 10) -> None:
        self.window = check_count("estimator.window", window, low=2)
        self.top_k = check_count("estimator.top_k", top_k, low=1)

    @abstractmethod
    def play(self, items: Sequence[PoolItem], calls: Callable[[], int | None]) -> Play:
        """The policy over the documents that the pool begins with, in its order, which is the first stage's.

        ``calls()`` are the calls that the request allows, of full windows where it limits documents; None where it
        limits neither. A window holds at least two documents, each once. A policy that
        asks for the same window twice in a row has ended. After a call that failed it goes on as if the window stood in
        order, or asks :func:`by_halves` (rule F6).
        """

    def _game(self, pool: CandidatePool, context: RAGtuneContext) -> Game:
        def calls() -> int | None:
            limits = context.tracker.budget
            full = None if limits.max_reranker_docs is None else limits.max_reranker_docs // self.window
            return min((calls for calls in (limits.max_reranker_calls, full) if calls is not None), default=None)

        return Game(partial(self.play, pool.entries, calls))

    def value(self, pool: CandidatePool, context: RAGtuneContext) -> Valuation:
        game = context.remember(self, lambda: self._game(pool, context))
        game.hear(pool.batches)
        while game.ask.window and len(window := _open(pool, game.ask.window)) < 2:
            game.pass_over()
        game.offered = len(window) if game.ask.window else 0
        places = np.empty(len(pool))
        ranking = [*game.ask.ranking, *range(len(game.ask.ranking), len(pool))]
        places[ranking] = np.arange(1, len(pool) + 1)
        return pool.valuation(
            1.0 / (1.0 + places),
            posterior=with_twins_level(-places, pool, compared=True),
            window=window if game.ask.window else (),
            first_round=partial(first_round, game.begin) if game.ask.opens or game.is_cut else None,
            diagnostics={"heard": game.heard},
        )


def _open(pool: CandidatePool, window: Sequence[int]) -> list[int]:
    return [position for position in window if pool.states[position] in (CANDIDATE, RERANKED)]
