"""How a language model's call fails: in the service or in the answer; ``kind`` says which way."""

from __future__ import annotations

from typing import Any, Literal

from ragtune.core.errors import LLMError
from ragtune.core.types import CostObject
from ragtune.llm.types import ChatResult

ServiceKind = Literal[
    "rate_limited", "unavailable", "timeout", "connection", "rejected", "malformed_response", "circuit_open"
]
AnswerKind = Literal["truncated", "refusal", "empty", "malformed_json", "wrong_enum", "wrong_count", "wrong_shape"]


class ServiceError(LLMError):
    """No answer was got: the service failed after all retries, or refused the request.

    Attributes:
        kind: ``rate_limited`` (429), ``unavailable`` (5xx), ``timeout``, ``connection``, ``rejected`` (other 4xx),
            ``malformed_response`` (no chat completion in the body), ``circuit_open`` (nothing was sent).
        attempts: requests sent.
        wasted_ms: milliseconds spent on them and between them.
        cost: what is charged: time only, since no answer was billed.
        paid: what this call itself cost; nothing where a recorded failure is replayed.
    """

    def __init__(
        self, message: str, kind: ServiceKind, attempts: int = 0, wasted_ms: float = 0.0, cached: bool = False
    ) -> None:
        super().__init__(message)
        self.kind: ServiceKind = kind
        self.attempts = attempts
        self.wasted_ms = wasted_ms
        self.cached = cached
        self.cost = CostObject(latency_ms=wasted_ms)
        self.paid = CostObject() if cached else self.cost

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.kind, self.attempts, self.wasted_ms, self.cached)


class CircuitOpenError(ServiceError):
    """Nothing was sent, because the service failed too often in a row; the message says how long to wait."""


class AnswerError(LLMError):
    """An answer was got, and billed, that cannot be used.

    Attributes:
        kind: ``truncated`` (cut off at max_tokens), ``refusal``, ``empty``, ``malformed_json``, ``wrong_enum`` (a value
            that is not one of those allowed), ``wrong_count`` (a list too short or too long), ``wrong_shape``.
        result: the answer with its bill, the repair's included.
        cost: what is charged for it.
        paid: what this call itself cost.
    """

    def __init__(self, message: str, kind: AnswerKind, result: ChatResult) -> None:
        super().__init__(message)
        self.kind: AnswerKind = kind
        self.result = result
        self.cost = result.cost
        self.paid = result.paid

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.kind, self.result)
