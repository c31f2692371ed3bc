"""One request on its way through the loop, and the smaller budgets that it stands for as well."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from ragtune.core.batches.failures import BatchCount
from ragtune.core.batches.runner import BatchBook
from ragtune.core.output import HistoryStep
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.request.limits import LIMITS
from ragtune.core.types import CostObject, StopRecord


@dataclass(frozen=True)
class LoopOutcome:
    """What the loop leaves behind, beside the pool and the history."""

    stop: StopRecord
    actual_cost: CostObject
    dropped: dict[str, str]
    batches: BatchCount


class SmallerBudgets:
    """Budgets that allow fewer documents, or calls, than that of the request, and are like it otherwise.

    As long as none of them binds, its request would have gone the same way. The first decision that it would make
    otherwise is where its limit is spent, or where the next batch takes more than what is left of it.

    Args:
        budgets: the budgets, each with a limit in ``unit``.
        unit: unit in which they differ, ``docs`` or ``calls``.

    Attributes:
        ended: by budget, the course that it took and what came of it, for those that took leave.
    """

    def __init__(self, budgets: Iterable[CostBudget] = (), unit: str = "docs") -> None:
        self._unit = unit
        self._waiting = sorted(budgets, key=self._allowed)
        self.ended: dict[CostBudget, tuple[Course, LoopOutcome]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def spent_by(self, cost: CostObject) -> list[CostBudget]:
        """Those to which ``cost`` leaves nothing; they are not waited for any longer."""
        return self._below(getattr(cost, self._unit) + 1)

    def short_of(self, cost: CostObject) -> list[CostBudget]:
        """Those that do not allow ``cost``; they are not waited for any longer."""
        return self._below(getattr(cost, self._unit))

    def _below(self, amount: int) -> list[CostBudget]:
        due = [budget for budget in self._waiting if self._allowed(budget) < amount]
        self._waiting = self._waiting[len(due) :]
        return due

    def _allowed(self, budget: CostBudget) -> int:
        allowed: int = getattr(budget, LIMITS[self._unit]) or 0
        return allowed


class Course(NamedTuple):
    """One request in the loop: its candidates, account and trace, the states so far, and its batches."""

    pool: CandidatePool
    context: RAGtuneContext
    history: list[HistoryStep]
    book: BatchBook
    smaller: SmallerBudgets

    def fork(self, budget: CostBudget) -> Course:
        """The course that the request would be on under ``budget``, from where it stands now."""
        context = self.context.fork(self.context.tracker.fork(budget))
        return Course(self.pool.fork(), context, list(self.history), self.book.fork(), SmallerBudgets())
