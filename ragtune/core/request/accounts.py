"""What a request has spent, what is left of a limit, how a refusal is put into words, and who may spend."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from ragtune.core.errors import ControllerOnlyError
from ragtune.core.types import UNLIMITED, CostObject
from ragtune.core.units import CALLS, DOCS, SOMETIMES_TOLD, TIME, UNITS

DIGITS = 9
"""Money and time are kept to this many decimals, so that three charges of $0.10 fit into $0.30."""

RERANK, REFORMULATION = "rerank", "reformulation"
"""What a cost is spent on: both draw on one account of tokens, time and money, each on its own count of calls."""

_REASONS = {unit.account: unit.refusal for unit in UNITS}

_IN_EVERY_BATCH = frozenset(unit.account for unit in (DOCS, CALLS, TIME))
"""Units that every batch takes: once used up, none can start. Of the others a batch may take nothing."""


def _unlimited_if_infinite(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticCustomError("number_type", "Input should be a number")  # true would be a limit of 1
    return None if isinstance(value, float) and value == math.inf else value


Count = Annotated[Annotated[int, Field(ge=0)] | None, BeforeValidator(_unlimited_if_infinite)]
Amount = Annotated[Annotated[float, Field(ge=0, allow_inf_nan=False)] | None, BeforeValidator(_unlimited_if_infinite)]


class Gate:
    """Open while the controller is in charge; as a context manager, closed while a component works."""

    def __init__(self) -> None:
        self.depth = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *raised: object) -> None:
        self.depth -= 1

    def require_open(self) -> None:
        """Let the controller pass; ControllerOnlyError while a component is at work."""
        if self.depth:
            raise ControllerOnlyError(
                "only the controller changes the pool and spends the budget: a component returns what it has to say, "
                "and reports costs to context.meter"
            )


class UnitAccount(NamedTuple):
    """A limited unit; ``reserved`` is kept for the context, ``asked`` is what a refused batch needs, else None."""

    unit: str
    used: float
    limit: float
    reserved: int = 0
    asked: float | None = None

    @property
    def remaining(self) -> float:
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

    def figures(self) -> dict[str, Any]:
        """Reason and remaining amount; of a refused batch the requested one too, and for time the elapsed time."""
        reason = {"reason": _REASONS[self.unit]}
        if self.asked is None:
            return reason | {"remaining": self.remaining}
        elapsed = {"elapsed": self.used} if self.unit == TIME.account else {}
        return reason | {"requested": self.asked, "remaining": self.remaining} | elapsed

    def in_words(self) -> str:
        """The unit, its limit and its usage; of a refused batch what it needs as well."""
        needed = "" if self.asked is None else f"the next batch needs {self.asked:g} more {self.unit}; "
        kept = f", {self.reserved} of them kept for the context" if self.reserved else ""
        return f"{needed}{self.unit}: {self.used:g} of {self.limit:g} used{kept}"


@dataclass(slots=True)
class Spending:
    """What one request has spent in every unit but time; ``tokens`` include the context's ``assembled_tokens``."""

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

    def amounts(self, elapsed_ms: float) -> tuple[float, ...]:
        """In each of UNITS."""
        docs, calls, tokens, usd = self.rerank_docs, self.rerank_calls, self.tokens, self.usd
        return docs, calls, tokens, elapsed_ms, usd, self.flops, self.search_units, self.joules

    def as_plain(self, elapsed_ms: float, overrun_ms: float) -> dict[str, Any]:
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


def count_left(limit: int | None, used: int) -> int:
    """What is left of a count, never below 0; :data:`UNLIMITED` without a limit."""
    return UNLIMITED if limit is None else max(0, limit - used)


def amount_left(limit: float | None, used: float) -> float:
    """What is left of an amount of time or money, never below 0; infinite without a limit."""
    return math.inf if limit is None else max(0.0, round(limit - used, DIGITS))
