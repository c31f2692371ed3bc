"""Hard budgets and the one account that enforces them (0.1 section 2B, 0.54 section 2, design section 3)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from ragtune.core.errors import InputError
from ragtune.core.request.accounts import DIGITS, Account, Shortfall
from ragtune.core.request.clock import Clock, MonotonicClock
from ragtune.core.request.gate import Gate
from ragtune.core.request.trace import ControllerTrace
from ragtune.core.types import FREE, UNLIMITED, CostObject, Pricer, RemainingBudgetView, price_by_count

RERANK, REFORMULATION = "rerank", "reformulation"
"""What a cost is spent on: both draw on one account of tokens, time and money, each on its own count of calls."""


def _unlimited_if_infinite(value: Any) -> Any:
    return None if isinstance(value, float) and value == math.inf else value


Count = Annotated[Annotated[int, Field(ge=0)] | None, BeforeValidator(_unlimited_if_infinite)]
Amount = Annotated[Annotated[float, Field(ge=0, allow_inf_nan=False)] | None, BeforeValidator(_unlimited_if_infinite)]


class CostBudget(BaseModel):
    """Limits of one request; ``None`` (or infinity) means unlimited.

    ``CostBudget()`` has the defaults of 0.1, which limit tokens, documents and time at once;
    :meth:`only` limits what it is told to and nothing else.

    Attributes:
        max_tokens: tokens for reranking, LLM calls and the assembled context together.
        max_reranker_docs: documents sent to a reranker.
        max_reranker_calls: reranker calls, failed ones included.
        max_reformulations: reformulator calls.
        max_retrieval_rounds: retrieval rounds beyond the original one.
        max_latency_ms: milliseconds since the request began; no batch starts that is expected to pass it.
        max_cost_usd: dollars.
        max_expanded_docs: documents that an expander may add to the pool.
        assembly_token_buffer: tokens that reranking may not touch, so that a context is left; None for half of
            ``max_tokens``.
        charge_failures: whether a failed batch's documents and calls, and the tokens and money that the reranker
            reports for it, are charged. False is 0.54 to the letter: nothing is consumed by a failed batch.
    """

    max_tokens: Count = 4000
    max_reranker_docs: Count = 50
    max_reranker_calls: Count = None
    max_reformulations: Count = 1
    max_retrieval_rounds: Count = 2
    max_latency_ms: Amount = 2000.0
    max_cost_usd: Amount = None
    max_expanded_docs: Count = None
    assembly_token_buffer: Annotated[int, Field(ge=0)] | None = None
    charge_failures: bool = True

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def only(cls, **limits: Any) -> CostBudget:
        """A budget that limits what is named and nothing else: ``CostBudget.only(max_reranker_docs=20)``.

        Raises:
            pydantic.ValidationError: on an unknown limit or a bad value.
        """
        return cls.model_validate({name: None for name in cls.model_fields if name.startswith("max_")} | limits)

    @classmethod
    def unlimited(cls) -> CostBudget:
        """A budget that never denies anything."""
        return cls.only()

    @property
    def tokens_for_assembly(self) -> int:
        """The buffer in tokens: as given, else half of ``max_tokens``, and 0 where tokens are unlimited."""
        if self.assembly_token_buffer is not None:
            return self.assembly_token_buffer
        return 0 if self.max_tokens is None else self.max_tokens // 2

    def create_tracker(self, trace: ControllerTrace | None = None, clock: Clock | None = None) -> CostTracker:
        """An account of this budget that starts now (0.54 section 3)."""
        return CostTracker(self, trace if trace is not None else ControllerTrace(), clock)


class CostTracker:
    """Spends a :class:`CostBudget`; what it grants is never more, and exhaustion returns False, it never raises (0.1
    section 2B). A true cost that turns out above the expected one is booked all the same.

    Args:
        budget: the limits.
        trace: where every grant and denial is written.
        clock: what latency is read from; the monotonic clock by default.
    """

    def __init__(self, budget: CostBudget, trace: ControllerTrace, clock: Clock | None = None) -> None:
        self._budget = budget
        self._trace = trace
        self._clock = clock if clock is not None else MonotonicClock()
        self._start_ms = self._clock.now_ms()
        self._tokens = 0
        self._assembled_tokens = 0
        self._rerank_docs = 0
        self._rerank_calls = 0
        self._reformulations = 0
        self._retrieval_rounds = 0
        self._expanded_docs = 0
        self._usd = 0.0
        self._is_assembling = False
        self._gate = Gate("only the controller spends the budget: a component reports to context.meter")

    @property
    def elapsed_ms(self) -> float:
        """Milliseconds since the request began, on the run's clock."""
        return self.clock.now_ms() - self._start_ms

    @property
    def time_left_ms(self) -> float:
        """Milliseconds left until the limit, never below 0; infinite without one."""
        return _amount_left(self.budget.max_latency_ms, self.elapsed_ms)

    @property
    def overrun_ms(self) -> float:
        """Milliseconds by which the request has passed its time limit; 0 within it or without one."""
        limit = self.budget.max_latency_ms
        return 0.0 if limit is None else max(0.0, round(self.elapsed_ms - limit, DIGITS))

    @property
    def assembled_tokens(self) -> int:
        """Tokens that assembly has spent."""
        return self._assembled_tokens

    @property
    def budget(self) -> CostBudget:
        """The limits."""
        return self._budget

    @property
    def trace(self) -> ControllerTrace:
        """Where every grant and denial is written."""
        return self._trace

    @property
    def clock(self) -> Clock:
        """What latency is read from."""
        return self._clock

    def read_only(self) -> AbstractContextManager[None]:
        """While a component is at work, nothing can be spent; an assembler may, see :meth:`assembling`."""
        return self._gate.closed()

    @contextmanager
    def assembling(self) -> Iterator[None]:
        """While an assembler is at work, it may spend tokens on the context."""
        self._is_assembling = True
        try:
            yield
        finally:
            self._is_assembling = False

    def let_pass(self, recorded_ms: float, since_ms: float) -> float:
        """Milliseconds since ``since_ms`` on this account, after its clock has moved on so that they are at least
        ``recorded_ms``: work that was only looked up takes the time that it took when it was done.
        """
        self.clock.advance(max(0.0, recorded_ms - (self.elapsed_ms - since_ms)))
        return self.elapsed_ms - since_ms

    # -- reranking -------------------------------------------------------------------------------------------------

    def shortfall(self, cost: CostObject) -> Shortfall | None:
        """The first unit in which ``cost`` cannot be spent on reranking, or None if it can be in all."""
        for account, asked in zip(self._accounts(), _in_order(cost), strict=True):
            if not account.has(asked):
                return Shortfall(account, asked)
        return None

    def denial(self, cost: CostObject) -> dict[str, Any] | None:
        """Why ``cost`` cannot be spent on reranking (reason, requested, remaining), or None if it can."""
        short = self.shortfall(cost)
        return None if short is None else short.figures()

    def consume(self, cost: CostObject) -> bool:
        """Spend ``cost`` on a rerank batch if every unit allows it; all of it or nothing."""
        self._gate.require_open()
        denial = self.denial(cost)
        if denial is not None:
            self.trace.add("budget", "deny_rerank", **denial)
            return False
        self._book(cost, sign=1)
        self.trace.add("budget", "consume_rerank", count=cost.docs, cost=cost.by_unit())
        return True

    def try_consume_rerank(self, n_docs: int) -> bool:
        """0.1's form of :meth:`consume`: ``n_docs`` documents in one call."""
        return self.consume(CostObject(docs=n_docs, calls=1))

    def settle(self, charged: CostObject, actual: CostObject, spent_on: str = RERANK) -> None:
        """Correct a charge once the true cost is known; an overrun is booked and traced, the past can't be undone.

        A time of 0 was unknown, so that taking any is no overrun.
        """
        self._gate.require_open()
        if actual is charged or actual == charged:
            return
        self._book(charged, sign=-1, spent_on=spent_on)
        self._book(actual, sign=1, spent_on=spent_on)
        before, after = charged.by_unit(), actual.by_unit()
        known = [unit for unit in before if unit != "latency_ms" or before[unit]]
        action = "overrun" if any(after[unit] > before[unit] for unit in known) else "settle"
        self.trace.add("budget", f"{action}_{spent_on}", charged=before, actual=after)

    def refund(self, cost: CostObject, spent_on: str = RERANK) -> None:
        """Book a failed batch: it stays charged, unless the budget follows 0.54 to the letter and gives it back."""
        self._gate.require_open()
        if self.budget.charge_failures:
            self.trace.add("budget", "charge_failure", cost=cost.by_unit())
            return
        self._book(cost, sign=-1, spent_on=spent_on)
        self.trace.add("budget", f"refund_{spent_on}", wasted=cost.by_unit())

    # -- everything else -------------------------------------------------------------------------------------------

    def try_consume_reformulation(self, n: int = 1, cost: CostObject = FREE) -> bool:
        """Spend ``n`` reformulator calls and the tokens, time and money that they cost; all of it or nothing.

        Tokens, time and money come from reranking's account: tokens only down to the assembly buffer.
        """
        if cost == FREE:
            return self._try_count(REFORMULATION, "_reformulations", self.budget.max_reformulations, n)
        denial = self.denial(CostObject(tokens=cost.tokens, latency_ms=cost.latency_ms, usd=cost.usd))
        if denial is not None:
            self.trace.add("budget", f"deny_{REFORMULATION}", **denial)
            return False
        limit, given = self.budget.max_reformulations, {"cost": cost.by_unit()}
        if not self._try_count(REFORMULATION, "_reformulations", limit, n, **given):
            return False
        self._book(cost, sign=1, spent_on=REFORMULATION)
        return True

    def try_consume_retrieval_round(self, n: int = 1) -> bool:
        """Spend ``n`` retrieval rounds beyond the original one."""
        return self._try_count("retrieval_round", "_retrieval_rounds", self.budget.max_retrieval_rounds, n)

    def try_consume_expansion(self, n_docs: int) -> bool:
        """Spend the right to add ``n_docs`` documents to the pool."""
        return self._try_count("expansion", "_expanded_docs", self.budget.max_expanded_docs, n_docs)

    def try_consume_tokens(self, n_tokens: int) -> bool:
        """Spend tokens on the assembled context; it may use all that is left, the buffer included."""
        if not self._is_assembling:
            self._gate.require_open()
        _require_not_negative("tokens", n_tokens)
        if n_tokens > _left(self.budget.max_tokens, self._tokens):
            return False
        self._tokens += n_tokens
        self._assembled_tokens += n_tokens
        return True

    def restart_assembly(self) -> None:
        """Give back what a failed assembly has spent, for another one."""
        self._gate.require_open()
        self._tokens -= self._assembled_tokens
        self._assembled_tokens = 0

    # -- views -----------------------------------------------------------------------------------------------------

    def remaining_view(
        self,
        strategies: tuple[str, ...] = ("default",),
        pricer: Pricer = price_by_count,
        closed: tuple[str, ...] = (),
    ) -> RemainingBudgetView:
        """What is left in every unit, as schedulers see it."""
        budget = self.budget
        return RemainingBudgetView(
            remaining_tokens=_left(budget.max_tokens, self._tokens),
            remaining_rerank_docs=_left(budget.max_reranker_docs, self._rerank_docs),
            remaining_rerank_calls=_left(budget.max_reranker_calls, self._rerank_calls),
            assembly_token_buffer=budget.tokens_for_assembly,
            remaining_latency_ms=self.time_left_ms,
            remaining_usd=_amount_left(budget.max_cost_usd, self._usd),
            strategies=strategies,
            closed=closed,
            pricer=pricer,
        )

    def remaining_expansion(self) -> int:
        """Documents that may still be added to the pool."""
        return _left(self.budget.max_expanded_docs, self._expanded_docs)

    def remaining_retrieval_rounds(self) -> int:
        """Retrieval rounds beyond the original one that may still begin."""
        return _left(self.budget.max_retrieval_rounds, self._retrieval_rounds)

    def exhausted_unit(self) -> dict[str, Any] | None:
        """The first unit in which no further batch is possible (limit: its name, used, allowed), or None."""
        account = self.exhausted_account()
        return None if account is None else {"limit": account.unit, "used": account.used, "allowed": account.limit}

    def exhausted_account(self) -> Account | None:
        """The account of the first unit in which no further batch is possible, or None."""
        return next((account for account in self._accounts() if account.is_exhausted()), None)

    def is_exhausted(self) -> bool:
        """Whether no further batch can be paid for (0.54 section 3)."""
        return self.exhausted_unit() is not None

    def spent(self) -> CostObject:
        """What reranking and LLM calls were charged so far; ``latency_ms`` is the time elapsed."""
        return CostObject(
            tokens=self._tokens,
            docs=self._rerank_docs,
            calls=self._rerank_calls,
            latency_ms=self.elapsed_ms,
            usd=self._usd,
        )

    def snapshot(self) -> dict[str, Any]:
        """The account as plain data (0.1's ``tokens``, ``latency``, ``rerank_docs``, and every further unit)."""
        return {
            "tokens": self._tokens,
            "latency": self.elapsed_ms,
            "rerank_docs": self._rerank_docs,
            "rerank_calls": self._rerank_calls,
            "reformulations": self._reformulations,
            "retrieval_rounds": self._retrieval_rounds,
            "expanded_docs": self._expanded_docs,
            "usd": self._usd,
            "latency_overrun": self.overrun_ms,
        }

    # -- internals -------------------------------------------------------------------------------------------------

    def _accounts(self) -> tuple[Account, ...]:
        """What reranking draws on, in the order in which a refusal is explained."""
        budget = self.budget
        return (
            Account("latency_ms", self.elapsed_ms, budget.max_latency_ms),
            Account("usd", self._usd, budget.max_cost_usd),
            Account("rerank_docs", self._rerank_docs, budget.max_reranker_docs),
            Account("rerank_calls", self._rerank_calls, budget.max_reranker_calls),
            Account("tokens", self._tokens, budget.max_tokens, budget.tokens_for_assembly),
        )

    def _book(self, cost: CostObject, sign: int, spent_on: str = RERANK) -> None:
        self._tokens += sign * cost.tokens
        self._usd = max(0.0, round(self._usd + sign * cost.usd, DIGITS))
        if spent_on == RERANK:
            self._rerank_docs += sign * cost.docs
            self._rerank_calls += sign * cost.calls

    def _try_count(self, what: str, account: str, limit: int | None, n: int, **given: Any) -> bool:
        self._gate.require_open()
        _require_not_negative(what, n)
        used: int = getattr(self, account)
        if self.time_left_ms <= 0:
            elapsed = self.elapsed_ms
            self.trace.add(
                "budget", f"deny_{what}", reason="latency_exceeded", requested=n, remaining=0.0, elapsed=elapsed
            )
            return False
        if n > _left(limit, used):
            self.trace.add("budget", f"deny_{what}", reason="limit_reached", requested=n, used=used, limit=limit)
            return False
        setattr(self, account, used + n)
        self.trace.add("budget", f"consume_{what}", count=n, **given)
        return True


def _left(limit: int | None, used: int) -> int:
    return UNLIMITED if limit is None else max(0, limit - used)


def _amount_left(limit: float | None, used: float) -> float:
    return math.inf if limit is None else max(0.0, round(limit - used, DIGITS))


def _in_order(cost: CostObject) -> tuple[float, float, int, int, int]:
    """The amounts of a cost in the order of the accounts."""
    return cost.latency_ms, cost.usd, cost.docs, cost.calls, cost.tokens


def _require_not_negative(what: str, n: int) -> None:
    if n < 0:
        raise InputError(f"cannot consume {n!r} of {what}: allowed is an integer >= 0")
