"""Hard budgets and the one account that enforces them (rules B1 to B9)."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from ragtune.core.request.accounts import (
    REFORMULATION,
    RERANK,
    Amount,
    Count,
    Gate,
    Spending,
    UnitAccount,
    amount_left,
    count_left,
)
from ragtune.core.request.clock import Clock, MonotonicClock
from ragtune.core.request.trace import ControllerTrace
from ragtune.core.types import FREE, CostObject, Pricer, RemainingBudgetView, price_by_count
from ragtune.core.units import REFUSED_FIRST, TIME, TOKENS, Unit


class CostBudget(BaseModel):
    """Limits of one request; ``None`` (or infinity) means unlimited.

    ``CostBudget()`` has defaults (rule B1) that limit tokens, documents and time at once;
    :meth:`only` limits the named units and nothing else.

    Attributes:
        max_tokens: tokens for reranking, LLM calls and the assembled context together.
        max_reranker_docs: documents sent to a reranker.
        max_reranker_calls: reranker calls, failed ones included.
        max_reformulations: reformulator calls.
        max_retrieval_rounds: retrieval rounds beyond the original one.
        max_latency_ms: milliseconds since the request began; no batch starts that is expected to pass it.
        max_cost_usd: dollars.
        max_flops: floating-point operations of the reranker, where the size of its model is declared.
        max_search_units: search units of the reranker, where it is billed in such.
        max_joules: energy, where the machine measures it: what a batch takes is known once it has run, so the batch
            that passes the limit is the last.
        max_expanded_docs: documents that an expander may add to the pool.
        assembly_token_buffer: tokens that reranking may not touch, so that a context is left; None for half of
            ``max_tokens``.
        charge_failures: whether a failed batch's documents and calls, and the tokens and money that the reranker
            reports for it, are charged. False is rule F2 to the letter: nothing is consumed by a failed batch.

    Examples:
        >>> from ragtune import CostBudget
        >>> budget = CostBudget(max_reranker_docs=20, max_latency_ms=None)
        >>> budget.max_reranker_docs, budget.max_latency_ms, budget.max_tokens
        (20, None, 4000)
    """

    max_tokens: Count = 4000
    max_reranker_docs: Count = 50
    max_reranker_calls: Count = None
    max_reformulations: Count = 1
    max_retrieval_rounds: Count = 2
    max_latency_ms: Amount = 2000.0
    max_cost_usd: Amount = None
    max_flops: Amount = None
    max_search_units: Count = None
    max_joules: Amount = None
    max_expanded_docs: Count = None
    assembly_token_buffer: Annotated[int, Field(ge=0)] | None = None
    charge_failures: bool = True

    model_config = ConfigDict(frozen=True, extra="forbid")

    @property
    def tokens_for_assembly(self) -> int:
        """The buffer in tokens: as given, else half of ``max_tokens``, and 0 where tokens are unlimited."""
        if self.assembly_token_buffer is not None:
            return self.assembly_token_buffer
        return 0 if self.max_tokens is None else self.max_tokens // 2

    @classmethod
    def only(cls, **limits: Any) -> CostBudget:
        """A budget that limits the named units and nothing else; pydantic.ValidationError on an unknown limit.

        Examples:
            >>> CostBudget.only(max_reranker_docs=20).max_reranker_docs
            20
        """
        return cls.model_validate({name: None for name in cls.model_fields if name.startswith("max_")} | limits)

    @classmethod
    def unlimited(cls) -> CostBudget:
        """A budget that never denies anything."""
        return cls.only()

    def create_tracker(self, trace: ControllerTrace | None = None, clock: Clock | None = None) -> CostTracker:
        """An account of this budget that starts now (rule B1)."""
        return CostTracker(self, trace if trace is not None else ControllerTrace(), clock)


class CostTracker:
    """Spends a :class:`CostBudget`; what it grants is never more, and exhaustion returns False, it never raises
    (rule B2). A true cost that turns out above the expected one is booked all the same.

    Args:
        budget: the limits.
        trace: trace into which every grant and denial is written.
        clock: clock that latency is read from; the monotonic clock by default.

    Examples:
        >>> from ragtune import CostBudget, CostTracker
        >>> from ragtune.core.request.trace import ControllerTrace
        >>> from ragtune.core.types import CostObject
        >>> tracker = CostTracker(CostBudget.only(max_reranker_docs=3), ControllerTrace())
        >>> tracker.consume(CostObject(docs=2, calls=1))
        True
        >>> tracker.remaining_view().remaining_rerank_docs
        1
    """

    def __init__(self, budget: CostBudget, trace: ControllerTrace, clock: Clock | None = None) -> None:
        self._budget = budget
        self._limited = [  # the unit, its limit, and what is kept of it, in the order in which a refusal is explained
            (unit, limit, budget.tokens_for_assembly if unit is TOKENS else 0)
            for unit in REFUSED_FIRST
            if (limit := getattr(budget, unit.limit)) is not None
        ]
        self.trace = trace
        self.clock = clock if clock is not None else MonotonicClock()
        self._start_ms = self.clock.now_ms()
        self._spent = Spending()
        self.gate = Gate()  # closed around the work of a component, which can spend tokens of the context only
        self.budget_was_read = False  # by a component, whose decisions may then depend on it

    @property
    def budget(self) -> CostBudget:
        """The limits; it is noted where a component looks at them, or at what is left of them."""
        self.budget_was_read |= self.gate.depth > 0
        return self._budget

    @property
    def elapsed_ms(self) -> float:
        """Milliseconds since the request began, on the run's clock."""
        return self.clock.now_ms() - self._start_ms

    @property
    def time_left_ms(self) -> float:
        """Milliseconds left until the limit, never below 0; infinite without one."""
        return amount_left(self.budget.max_latency_ms, self.elapsed_ms)

    @property
    def overrun_ms(self) -> float:
        """Milliseconds by which the request has passed its time limit; 0 within it or without one."""
        limit = self.budget.max_latency_ms
        return 0.0 if limit is None else amount_left(self.elapsed_ms, limit)

    @property
    def assembled_tokens(self) -> int:
        """Tokens that assembly has spent."""
        return self._spent.assembled_tokens

    def let_pass(self, recorded_ms: float, since_ms: float) -> float:
        """Milliseconds since ``since_ms`` on this account, after its clock has moved on so that they are at least
        ``recorded_ms``: work that was only looked up takes the time that it took when it was done.
        """
        if (lacking := recorded_ms - (self.elapsed_ms - since_ms)) > 0.0:
            self.clock.advance(lacking)
        return self.elapsed_ms - since_ms

    def fork(self, budget: CostBudget) -> CostTracker:
        """An account of ``budget`` that has spent what this one has, with its own clock and trace."""
        clock = copy(self.clock)
        twin = CostTracker(budget, self.trace.fork(clock), clock)
        twin._start_ms, twin._spent = self._start_ms, copy(self._spent)
        return twin

    def shortfall(self, cost: CostObject) -> UnitAccount | None:
        """The first unit in which ``cost`` cannot be spent on reranking, or None if it can be in all."""
        for unit, account in self._accounts():
            if not account.has(asked := getattr(cost, unit.name)):
                return account._replace(asked=asked)
        return None

    def charge(self, cost: CostObject) -> UnitAccount | None:
        """Spend ``cost`` on a rerank batch; all of it or nothing, and then what is short."""
        self.gate.require_open()
        if short := self.shortfall(cost):
            self.trace.add("budget", "deny_rerank", **short.figures())
            return short
        self._spent.book(cost, RERANK)
        self.trace.add("budget", "consume_rerank", count=cost.docs, cost=cost.by_unit())
        return None

    def consume(self, cost: CostObject) -> bool:
        """Whether ``cost`` could be spent on a rerank batch, see :meth:`charge`."""
        return self.charge(cost) is None

    def settle(self, charged: CostObject, actual: CostObject, spent_on: str = RERANK) -> None:
        """Correct a charge once the true cost is known; an overrun is booked and traced, the past can't be undone.

        A time of 0 was unknown, so that taking any is no overrun.
        """
        self.gate.require_open()
        if actual is charged or actual == charged:
            return
        self._spent.book(charged, spent_on, sign=-1)
        self._spent.book(actual, spent_on)
        before, after = charged.by_unit(), actual.by_unit()
        is_over = any(after.get(unit, 0) > amount for unit, amount in before.items() if unit != "latency_ms" or amount)
        self.trace.add("budget", f"{'overrun' if is_over else 'settle'}_{spent_on}", charged=before, actual=after)

    def refund(self, cost: CostObject, spent_on: str = RERANK) -> None:
        """Book a failed batch: it stays charged, unless the budget follows rule F2 to the letter and gives it back."""
        self.gate.require_open()
        if self._budget.charge_failures:
            self.trace.add("budget", "charge_failure", cost=cost.by_unit())
            return
        self._spent.book(cost, spent_on, sign=-1)
        self.trace.add("budget", f"refund_{spent_on}", wasted=cost.by_unit())

    def try_consume_reformulation(self, cost: CostObject = FREE) -> bool:
        """Spend a reformulator call and the tokens (down to the assembly buffer), time and money that it costs, on
        reranking's account; all of it or nothing.
        """
        if cost != FREE and (short := self.shortfall(cost.model_copy(update={"docs": 0, "calls": 0}))):
            self.trace.add("budget", f"deny_{REFORMULATION}", **short.figures())
            return False
        price = {} if cost == FREE else {"cost": cost.by_unit()}
        if not self._try_count(REFORMULATION, "reformulations", self._budget.max_reformulations, 1, **price):
            return False
        self._spent.book(cost, REFORMULATION)
        return True

    def try_consume_retrieval_round(self) -> bool:
        """Spend a retrieval round beyond the original one."""
        return self._try_count("retrieval_round", "retrieval_rounds", self._budget.max_retrieval_rounds, 1)

    def try_consume_expansion(self, n_docs: int) -> bool:
        """Spend the right to add ``n_docs`` documents to the pool."""
        return self._try_count("expansion", "expanded_docs", self._budget.max_expanded_docs, n_docs)

    def try_consume_tokens(self, n_tokens: int) -> bool:
        """Spend tokens on the assembled context: all that is left, and at least ``assembly_token_buffer``.

        The buffer is a reserve. Where a call was billed more tokens than were left for it, the context still gets it.
        """
        limit, spent = self._budget.max_tokens, self._spent
        if limit is not None:
            reserve = min(limit, self._budget.tokens_for_assembly) - spent.assembled_tokens
            if n_tokens > max(limit - spent.tokens, reserve):
                return False
        self._spent.tokens += n_tokens
        self._spent.assembled_tokens += n_tokens
        return True

    def restart_assembly(self) -> None:
        """Give back what a failed assembly has spent, for another one."""
        self.gate.require_open()
        self._spent.tokens -= self._spent.assembled_tokens
        self._spent.assembled_tokens = 0

    def remaining_view(
        self, strategies: tuple[str, ...] = ("default",), pricer: Pricer = price_by_count, closed: tuple[str, ...] = ()
    ) -> RemainingBudgetView:
        """What is left in every unit, as schedulers see it."""
        left: dict[str, Any] = {
            f"remaining_{unit.account}": account._replace(reserved=0).remaining for unit, account in self._accounts()
        }
        buffer = self._budget.tokens_for_assembly
        return RemainingBudgetView(
            assembly_token_buffer=buffer, strategies=strategies, closed=closed, pricer=pricer, **left
        )

    def remaining_expansion(self) -> int:
        """Documents that may still be added to the pool."""
        return count_left(self.budget.max_expanded_docs, self._spent.expanded_docs)

    def remaining_retrieval_rounds(self) -> int:
        """Retrieval rounds beyond the original one that may still begin."""
        return count_left(self.budget.max_retrieval_rounds, self._spent.retrieval_rounds)

    def exhausted_account(self) -> UnitAccount | None:
        """The account of the first unit in which no further batch is possible, or None."""
        return next((account for _, account in self._accounts() if account.is_exhausted()), None)

    def is_exhausted(self) -> bool:
        """Whether no further batch can be paid for (rule B2)."""
        return self.exhausted_account() is not None

    def spent(self) -> CostObject:
        """What reranking and LLM calls were charged so far; ``latency_ms`` is the time elapsed."""
        return CostObject.of(self.amounts())

    def amounts(self) -> tuple[float, ...]:
        """The amounts of :meth:`spent`, in each of UNITS."""
        return self._spent.amounts(self.elapsed_ms)

    def snapshot(self) -> dict[str, Any]:
        """The account as plain data (``tokens``, ``latency``, ``rerank_docs``, and every further unit)."""
        return self._spent.as_plain(self.elapsed_ms, self.overrun_ms)

    def _accounts(self) -> Iterator[tuple[Unit, UnitAccount]]:
        self.budget_was_read |= self.gate.depth > 0
        for unit, limit, reserved in self._limited:
            used = self.elapsed_ms if unit is TIME else getattr(self._spent, unit.account)
            yield unit, UnitAccount(unit.account, used, limit, reserved)

    def _try_count(self, what: str, account: str, limit: int | None, n: int, **given: Any) -> bool:
        self.gate.require_open()
        used: int = getattr(self._spent, account)
        if self.time_left_ms <= 0:
            late = {"reason": "latency_exceeded", "requested": n, "remaining": 0.0, "elapsed": self.elapsed_ms}
            self.trace.add("budget", f"deny_{what}", **late)
            return False
        if n > count_left(limit, used):
            self.trace.add("budget", f"deny_{what}", reason="limit_reached", requested=n, used=used, limit=limit)
            return False
        setattr(self._spent, account, used + n)
        self.trace.add("budget", f"consume_{what}", count=n, **given)
        return True
