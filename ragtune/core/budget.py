"""Hard budgets and the one account that enforces them (0.1 section 2B, 0.54 section 2, design section 3)."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from ragtune.core.clock import Clock, MonotonicClock
from ragtune.core.errors import InputError
from ragtune.core.trace import ControllerTrace
from ragtune.core.types import FREE, UNLIMITED, CostObject, Pricer, RemainingBudgetView, price_by_count
from ragtune.core.unchecked import unchecked

RERANK, REFORMULATION = "rerank", "reformulation"
"""What a cost is spent on: both draw on one account of tokens, time and money, each on its own count of calls."""

_DIGITS = 9
"""Money and time are kept to this many decimals, so that three charges of $0.10 fit into $0.30."""


def _unlimited_if_infinite(value: Any) -> Any:
    return None if isinstance(value, float) and value == math.inf else value


Count = Annotated[Annotated[int, Field(ge=0)] | None, BeforeValidator(_unlimited_if_infinite)]
Amount = Annotated[Annotated[float, Field(ge=0, allow_inf_nan=False)] | None, BeforeValidator(_unlimited_if_infinite)]


class CostBudget(BaseModel):
    """Limits of one request; ``None`` (or infinity) means unlimited.

    Attributes:
        max_tokens: tokens for reranking, LLM calls and the assembled context together.
        max_reranker_docs: documents reranked.
        max_reranker_calls: reranker calls.
        max_reformulations: reformulator calls.
        max_retrieval_rounds: retrieval rounds beyond the original one.
        max_latency_ms: milliseconds since the request began; no batch starts that is expected to pass it.
        max_cost_usd: dollars.
        max_expanded_docs: documents that an expander may add to the pool.
        assembly_token_buffer: tokens that reranking may not touch, so that the context is never empty.
        charge_failures: whether a failed batch is charged (0.54 says no; a live API bills it).
    """

    max_tokens: Count = 4000
    max_reranker_docs: Count = 50
    max_reranker_calls: Count = None
    max_reformulations: Count = 1
    max_retrieval_rounds: Count = 2
    max_latency_ms: Amount = 2000.0
    max_cost_usd: Amount = None
    max_expanded_docs: Count = None
    assembly_token_buffer: int = Field(default=0, ge=0)
    charge_failures: bool = False

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def unlimited(cls) -> CostBudget:
        """A budget that never denies anything."""
        limits = [name for name in cls.model_fields if name.startswith("max_")]
        return cls.model_validate(dict.fromkeys(limits))

    def create_tracker(self, trace: ControllerTrace | None = None, clock: Clock | None = None) -> CostTracker:
        """An account of this budget that starts now (0.54 section 3)."""
        return CostTracker(self, trace if trace is not None else ControllerTrace(), clock)


class CostTracker:
    """Spends a :class:`CostBudget` and never more; exhaustion returns False, it never raises (0.1 section 2B).

    Args:
        budget: the limits.
        trace: where every grant and denial is written.
        clock: what latency is read from; the monotonic clock by default.
    """

    def __init__(self, budget: CostBudget, trace: ControllerTrace, clock: Clock | None = None) -> None:
        self.budget = budget
        self.trace = trace
        self.clock = clock if clock is not None else MonotonicClock()
        self._start_ms = self.clock.now_ms()
        self._tokens = 0
        self._rerank_docs = 0
        self._rerank_calls = 0
        self._reformulations = 0
        self._retrieval_rounds = 0
        self._expanded_docs = 0
        self._usd = 0.0

    @property
    def elapsed_ms(self) -> float:
        """Milliseconds since the request began, on the run's clock."""
        return self.clock.now_ms() - self._start_ms

    @property
    def time_left_ms(self) -> float:
        """Milliseconds left until the limit, never below 0; infinite without one."""
        return _amount_left(self.budget.max_latency_ms, self.elapsed_ms)

    # -- reranking -------------------------------------------------------------------------------------------------

    def denial(self, cost: CostObject) -> dict[str, Any] | None:
        """Why ``cost`` cannot be spent on reranking (unit, requested, remaining), or None if it can."""
        budget = self.budget
        return self._time_or_money_denial(cost) or _first_excess(
            ("doc_limit_exceeded", cost.docs, _left(budget.max_reranker_docs, self._rerank_docs)),
            ("call_limit_exceeded", cost.calls, _left(budget.max_reranker_calls, self._rerank_calls)),
            ("token_limit_exceeded", cost.tokens, self._tokens_above_buffer()),
        )

    def _time_or_money_denial(self, cost: CostObject) -> dict[str, Any] | None:
        budget, elapsed = self.budget, self.elapsed_ms
        if not _within(budget.max_latency_ms, elapsed, cost.latency_ms):
            left = _amount_left(budget.max_latency_ms, elapsed)
            return {
                "reason": "latency_exceeded",
                "requested": cost.latency_ms,
                "remaining": left,
                "elapsed": elapsed,
            }
        if not _within(budget.max_cost_usd, self._usd, cost.usd):
            left = _amount_left(budget.max_cost_usd, self._usd)
            return {"reason": "cost_limit_exceeded", "requested": cost.usd, "remaining": left}
        return None

    def consume(self, cost: CostObject) -> bool:
        """Spend ``cost`` on a rerank batch if every unit allows it; all of it or nothing."""
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
        if actual is charged or actual == charged:
            return
        self._book(charged, sign=-1, spent_on=spent_on)
        self._book(actual, sign=1, spent_on=spent_on)
        before, after = charged.by_unit(), actual.by_unit()
        known = [unit for unit in before if unit != "latency_ms" or before[unit]]
        action = "overrun" if any(after[unit] > before[unit] for unit in known) else "settle"
        self.trace.add("budget", f"{action}_{spent_on}", charged=before, actual=after)

    def refund(self, cost: CostObject, spent_on: str = RERANK) -> None:
        """Give back a failed batch's charge (0.54: nothing consumed), unless the budget charges failures."""
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
        denial = self._time_or_money_denial(cost) or _first_excess(
            ("token_limit_exceeded", cost.tokens, self._tokens_above_buffer())
        )
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
        _require_not_negative("tokens", n_tokens)
        if n_tokens > _left(self.budget.max_tokens, self._tokens):
            return False
        self._tokens += n_tokens
        return True

    # -- views -----------------------------------------------------------------------------------------------------

    def remaining_view(
        self, strategies: tuple[str, ...] = ("default",), pricer: Pricer = price_by_count
    ) -> RemainingBudgetView:
        """What is left in every unit, as schedulers see it."""
        budget = self.budget
        left = {
            "remaining_tokens": _left(budget.max_tokens, self._tokens),
            "remaining_rerank_docs": _left(budget.max_reranker_docs, self._rerank_docs),
            "remaining_rerank_calls": _left(budget.max_reranker_calls, self._rerank_calls),
            "assembly_token_buffer": budget.assembly_token_buffer,
            "remaining_latency_ms": _amount_left(budget.max_latency_ms, self.elapsed_ms),
            "remaining_usd": _amount_left(budget.max_cost_usd, self._usd),
            "strategies": strategies,
            "pricer": pricer,
        }
        return unchecked(RemainingBudgetView, left)

    def remaining_expansion(self) -> int:
        """Documents that may still be added to the pool."""
        return _left(self.budget.max_expanded_docs, self._expanded_docs)

    def remaining_retrieval_rounds(self) -> int:
        """Retrieval rounds beyond the original one that may still begin."""
        return _left(self.budget.max_retrieval_rounds, self._retrieval_rounds)

    def exhausted_unit(self) -> dict[str, Any] | None:
        """The first unit in which no further batch is possible (type, used, limit), or None."""
        budget = self.budget
        units = (
            ("rerank_docs", self._rerank_docs, budget.max_reranker_docs),
            ("rerank_calls", self._rerank_calls, budget.max_reranker_calls),
            ("latency_ms", self.elapsed_ms, budget.max_latency_ms),
            ("usd", self._usd, budget.max_cost_usd),
        )
        for unit, used, limit in units:
            if limit is not None and used >= limit:
                return {"limit": unit, "used": used, "allowed": limit}
        if budget.max_tokens is not None and self._tokens + budget.assembly_token_buffer > budget.max_tokens:
            return {"limit": "tokens", "used": self._tokens, "allowed": budget.max_tokens}
        return None

    def is_exhausted(self) -> bool:
        """Whether no further batch can be paid for (0.54 section 3)."""
        return self.exhausted_unit() is not None

    def spent(self) -> CostObject:
        """What reranking and LLM calls were charged so far; ``latency_ms`` is the time elapsed."""
        spent = {
            "tokens": self._tokens,
            "docs": self._rerank_docs,
            "calls": self._rerank_calls,
            "latency_ms": self.elapsed_ms,
            "usd": self._usd,
        }
        return unchecked(CostObject, spent)

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
        }

    # -- internals -------------------------------------------------------------------------------------------------

    def _tokens_above_buffer(self) -> int:
        return max(0, _left(self.budget.max_tokens, self._tokens) - self.budget.assembly_token_buffer)

    def _book(self, cost: CostObject, sign: int, spent_on: str = RERANK) -> None:
        self._tokens += sign * cost.tokens
        self._usd = max(0.0, round(self._usd + sign * cost.usd, _DIGITS))
        if spent_on == RERANK:
            self._rerank_docs += sign * cost.docs
            self._rerank_calls += sign * cost.calls

    def _try_count(self, what: str, account: str, limit: int | None, n: int, **given: Any) -> bool:
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


def _first_excess(*checks: tuple[str, int, int]) -> dict[str, Any] | None:
    """The first of (reason, requested, remaining) that asks for more than there is."""
    for reason, requested, remaining in checks:
        if requested > remaining:
            return {"reason": reason, "requested": requested, "remaining": remaining}
    return None


def _left(limit: int | None, used: int) -> int:
    return UNLIMITED if limit is None else max(0, limit - used)


def _amount_left(limit: float | None, used: float) -> float:
    return math.inf if limit is None else max(0.0, round(limit - used, _DIGITS))


def _within(limit: float | None, used: float, cost: float) -> bool:
    return limit is None or round(used + cost, _DIGITS) <= limit


def _require_not_negative(what: str, n: int) -> None:
    if n < 0:
        raise InputError(f"cannot consume {n!r} of {what}: allowed is an integer >= 0")
