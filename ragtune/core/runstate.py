"""The state of one request in the loop, and the smaller budgets that share its decisions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ragtune.core.batches.runner import BatchBook
from ragtune.core.output import ControllerOutput, HistoryStep
from ragtune.core.pool.pool import CandidatePool
from ragtune.core.request.budget import CostBudget
from ragtune.core.request.context import RAGtuneContext
from ragtune.core.types import CostObject, StopRecord
from ragtune.core.units import LIMITS


class BudgetForks:
    """Smaller budgets that share the decisions of a request until their limit binds.

    The budgets differ from the request's in one unit only. A budget forks off where its limit is spent, or where the
    next batch takes more than what is left of it: up to there, its own request would have decided the same.

    Args:
        budgets: the budgets, each with a limit in ``unit``.
        unit: unit in which they differ, ``docs`` or ``calls``.

    Attributes:
        ended: final state and stop by budget, for those that forked off.
        outputs: what each of these gives the caller.
        saw_reader: whether a component had looked at the budget while one still shared its decisions.
    """

    def __init__(self, budgets: Iterable[CostBudget] = (), unit: str = "docs") -> None:
        self._unit = unit
        self._waiting = sorted(budgets, key=self._allowed)
        self.ended: dict[CostBudget, tuple[RunState, StopRecord]] = {}
        self.outputs: dict[CostBudget, ControllerOutput] = {}
        self.saw_reader = False

    def __len__(self) -> int:
        return len(self._waiting)

    def below(self, cost: CostObject, *, or_at: bool = False) -> list[CostBudget]:
        """Take out the budgets that do not allow ``cost``; with ``or_at``, those that it leaves nothing, too."""
        amount = getattr(cost, self._unit) + or_at
        due = [budget for budget in self._waiting if self._allowed(budget) < amount]
        self._waiting = self._waiting[len(due) :]
        return due

    def _allowed(self, budget: CostBudget) -> int:
        allowed: int = getattr(budget, LIMITS[self._unit]) or 0
        return allowed


class RunState(NamedTuple):
    """The state of one request in the loop: candidates, account, trace, history and batches."""

    pool: CandidatePool
    context: RAGtuneContext
    history: list[HistoryStep]
    book: BatchBook
    forks: BudgetForks

    def fork(self, budget: CostBudget) -> RunState:
        """A copy of the state under another budget; what happens to either does not reach the other."""
        context = self.context.fork(self.context.tracker.fork(budget))
        pool = self.pool.fork()
        pool.gate = context.tracker.gate
        return RunState(pool, context, list(self.history), self.book.fork(), BudgetForks())
