"""Bookkeeping without decisions: what a request has spent, what is left of a limit, how a refusal is put into words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

from ragtune.core.request.limits import Limits
from ragtune.core.types import FREE, UNLIMITED, CostObject
from ragtune.core.units import CALLS, DOCS, NAMES, REFUSED_FIRST, SOMETIMES_TOLD, TIME, TOKENS, UNITS, Unit

DIGITS = 9
"""Money and time are kept to this many decimals, so that three charges of $0.10 fit into $0.30."""

RERANK, REFORMULATION = "rerank", "reformulation"
"""What a cost is spent on: both draw on one account of tokens, time and money, each on its own count of calls."""

_REASONS = {unit.account: unit.refusal for unit in UNITS}

_IN_EVERY_BATCH = frozenset(unit.account for unit in (DOCS, CALLS, TIME))
"""Units that no batch is free of: once they are used up, no batch can start. Of the others a batch may take nothing, so
that one may start until they are overdrawn."""

_COUNTED = attrgetter(*(unit.account for unit in UNITS if unit is not TIME))
_TIME_AT = UNITS.index(TIME)


class Account(NamedTuple):
    """A limited unit that reranking draws on.

    Attributes:
        unit: name of the unit, as in ``CostTracker.snapshot``.
        used: amount spent so far.
        limit: amount allowed in all.
        reserved: part of the limit that is kept for something else (tokens for assembly).
    """

    unit: str
    used: float
    limit: float
    reserved: int = 0

    @property
    def reason(self) -> str:
        """The reason that traces give for a refusal in this unit."""
        return _REASONS[self.unit]

    @property
    def remaining(self) -> float:
        """What is left for reranking, never below 0."""
        left = round(self.limit - self.used - self.reserved, DIGITS)
        return max(left, type(left)(0))

    def has(self, asked: float) -> bool:
        """Whether ``asked`` more may be spent; once the limit has been passed, nothing may, not even 0."""
        return asked <= self.remaining and round(self.used, DIGITS) <= self.limit

    def is_exhausted(self) -> bool:
        """Whether no batch can be paid for; one that takes nothing of a unit can be until that is overdrawn."""
        if self.unit in _IN_EVERY_BATCH:
            return self.used >= self.limit
        return self.used + self.reserved > self.limit

    def in_words(self) -> str:
        """The unit, its limit and its usage."""
        kept = f", {self.reserved} of them kept for the context" if self.reserved else ""
        return f"{self.unit}: {self.used:g} of {self.limit:g} used{kept}"


class Shortfall(NamedTuple):
    """A wish that one unit cannot pay for."""

    account: Account
    asked: float

    def figures(self) -> dict[str, Any]:
        """Reason, requested and remaining amount; for time also the time that has elapsed."""
        figures = {"reason": self.account.reason, "requested": self.asked, "remaining": self.account.remaining}
        return figures | ({"elapsed": self.account.used} if self.account.unit == "latency_ms" else {})

    def in_words(self) -> str:
        """What was asked for, and the unit, its limit and its usage."""
        return f"the next batch needs {self.asked:g} more {self.account.unit}; {self.account.in_words()}"


Limited = tuple[Unit, float, int]
"""A unit, how much of it is allowed, and the part of that which is kept for something else."""


def limited_units(limits: Limits) -> list[Limited]:
    """The limited units that reranking draws on, in the order in which a refusal is explained."""
    return [
        (unit, limit, limits.tokens_for_assembly if unit is TOKENS else 0)
        for unit, limit in zip(REFUSED_FIRST, _LIMITS(limits), strict=True)
        if limit is not None
    ]


_LIMITS = attrgetter(*(unit.limit for unit in REFUSED_FIRST))


@dataclass(slots=True)
class Spending:
    """What one request has spent so far in every unit but time, which the clock tells.

    Attributes:
        tokens: on reranking, LLM calls and the assembled context together.
        assembled_tokens: those of them that went into the context.
        rerank_docs: documents sent to a reranker.
        rerank_calls: reranker calls.
        reformulations: reformulator calls.
        retrieval_rounds: retrieval rounds beyond the original one.
        expanded_docs: documents that an expander has added to the pool.
        usd: dollars.
        flops: floating-point operations.
        search_units: search units.
        joules: measured energy.
    """

    tokens: int = 0
    assembled_tokens: int = 0
    rerank_docs: int = 0
    rerank_calls: int = 0
    reformulations: int = 0
    retrieval_rounds: int = 0
    expanded_docs: int = 0
    usd: float = 0.0
    flops: float = 0.0
    search_units: int = 0
    joules: float = 0.0

    def fork(self) -> Spending:
        """What has been spent so far, to go on from by itself."""
        return Spending(*_ALL(self))

    def book(self, cost: CostObject, spent_on: str, sign: int = 1) -> None:
        """Add a cost, or take it back with ``sign=-1``; documents and calls count for reranking only."""
        self.tokens += sign * cost.tokens
        self.search_units += sign * cost.search_units
        if cost.usd or cost.flops or cost.joules:  # which most rerankers have no price in
            self.usd = max(0.0, round(self.usd + sign * cost.usd, DIGITS))
            self.flops = max(0.0, self.flops + sign * cost.flops)
            self.joules = max(0.0, round(self.joules + sign * cost.joules, DIGITS))
        if spent_on == RERANK:
            self.rerank_docs += sign * cost.docs
            self.rerank_calls += sign * cost.calls

    def as_cost(self, elapsed_ms: float) -> CostObject:
        """What reranking and LLM calls have cost."""
        amounts: dict[str, Any] = dict(zip(NAMES, self.amounts(elapsed_ms), strict=True))
        return CostObject(**amounts)

    def amounts(self, elapsed_ms: float) -> list[float]:
        """The same in the order of :data:`ragtune.core.units.UNITS`."""
        amounts: list[float] = list(_COUNTED(self))
        amounts.insert(_TIME_AT, elapsed_ms)
        return amounts

    def as_plain(self, elapsed_ms: float, overrun_ms: float) -> dict[str, Any]:
        """All units as plain data, under the names that the controller's output uses."""
        return {
            "tokens": self.tokens,
            "latency": elapsed_ms,
            "rerank_docs": self.rerank_docs,
            "rerank_calls": self.rerank_calls,
            "reformulations": self.reformulations,
            "retrieval_rounds": self.retrieval_rounds,
            "expanded_docs": self.expanded_docs,
            "usd": self.usd,
            "latency_overrun": overrun_ms,
            **{unit: amount for unit in SOMETIMES_TOLD if (amount := getattr(self, unit))},
        }

    def accounts(
        self, limited: Sequence[Limited], elapsed_ms: float, cost: CostObject = FREE
    ) -> Iterator[tuple[Account, float]]:
        """The accounts of the limited units, in their order, each with what ``cost`` asks of it."""
        for unit, limit, reserved in limited:
            used = elapsed_ms if unit is TIME else getattr(self, unit.account)
            yield Account(unit.account, used, limit, reserved), getattr(cost, unit.name)


_ALL = attrgetter(*Spending.__slots__)  # in an eighth of what ``dataclasses.replace`` takes


def left(limit: int | None, used: int) -> int:
    """What is left of a count, never below 0; :data:`UNLIMITED` without a limit."""
    return UNLIMITED if limit is None else max(0, limit - used)


def amount_left(limit: float | None, used: float) -> float:
    """What is left of an amount of time or money, never below 0; infinite without a limit."""
    return math.inf if limit is None else max(0.0, round(limit - used, DIGITS))
