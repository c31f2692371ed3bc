"""One unit of a budget: what is used, what is allowed, and how a refusal is put into words."""

from __future__ import annotations

from typing import Any, NamedTuple

DIGITS = 9
"""Money and time are kept to this many decimals, so that three charges of $0.10 fit into $0.30."""

_REASONS = {
    "latency_ms": "latency_exceeded",
    "usd": "cost_limit_exceeded",
    "rerank_docs": "doc_limit_exceeded",
    "rerank_calls": "call_limit_exceeded",
    "tokens": "token_limit_exceeded",
}


class Account(NamedTuple):
    """A unit that reranking draws on.

    Attributes:
        unit: its name, as in ``CostTracker.snapshot``.
        used: spent so far.
        limit: allowed in all; None for no limit.
        reserved: part of the limit that is kept for something else (tokens for assembly).
    """

    unit: str
    used: float
    limit: float | None
    reserved: int = 0

    @property
    def reason(self) -> str:
        """How traces name a refusal in this unit."""
        return _REASONS[self.unit]

    @property
    def remaining(self) -> float:
        """What is left for reranking, never below 0."""
        assert self.limit is not None  # noqa: S101 -- callers ask limited accounts only; for the type checker
        left = round(self.limit - self.used - self.reserved, DIGITS)
        return max(left, type(left)(0))

    def has(self, asked: float) -> bool:
        """Whether ``asked`` more may be spent; once time or money are overdrawn, nothing more may start at all."""
        if self.limit is None:
            return True
        if not asked and self.unit not in ("latency_ms", "usd"):
            return True
        return asked <= self.remaining and round(self.used, DIGITS) <= self.limit

    def is_exhausted(self) -> bool:
        """Whether no batch can be paid for; one that is free of tokens or money can be until they are overdrawn."""
        if self.limit is None:
            return False
        if self.unit in ("tokens", "usd"):
            return self.used + self.reserved > self.limit
        return self.used >= self.limit

    def in_words(self) -> str:
        """The unit, its limit and its usage."""
        kept = f", {self.reserved} of them kept for the context" if self.reserved else ""
        return f"{self.unit}: {self.used:g} of {self.limit:g} used{kept}"


class Shortfall(NamedTuple):
    """A wish that one unit cannot pay for."""

    account: Account
    asked: float

    def figures(self) -> dict[str, Any]:
        """Reason, requested and remaining; for time what has elapsed, too."""
        figures = {"reason": self.account.reason, "requested": self.asked, "remaining": self.account.remaining}
        return figures | ({"elapsed": self.account.used} if self.account.unit == "latency_ms" else {})

    def in_words(self) -> str:
        """What was asked for, and the unit, its limit and its usage."""
        return f"the next batch needs {self.asked:g} more {self.account.unit}; {self.account.in_words()}"
