"""How a language model's call fails: in the service or in the answer; ``kind`` says which way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from ragtune.core.errors import InconclusiveError, LLMError, NotAskedError
from ragtune.core.types import CostObject
from ragtune.llm.types import ChatResult, Price

ServiceKind = Literal[
    "rate_limited",
    "unavailable",
    "timeout",
    "deadline",
    "connection",
    "rejected",
    "malformed_response",
    "too_large",
    "circuit_open",
]
AnswerKind = Literal["truncated", "refusal", "empty", "malformed_json", "wrong_enum", "wrong_count", "wrong_shape"]


class ServiceError(LLMError):
    """No answer was got: the service failed after all retries, refused the request, or took too long.

    Attributes:
        kind: ``rate_limited`` (429), ``unavailable`` (5xx), ``timeout`` (no whole reply within ``timeout_s``),
            ``deadline`` (the caller's time ran out first), ``connection``, ``rejected`` (other 4xx),
            ``malformed_response`` (no chat completion in the body), ``too_large`` (the body), ``circuit_open`` (nothing
            was sent).
        attempts: requests sent.
        wasted_ms: milliseconds spent on them and between them.
        prompt_tokens: tokens read, where the server reported any with a reply that cannot be used.
        completion_tokens: tokens written, where the server reported any with a reply that cannot be used.
        usd: dollars for those tokens.
        cached: whether a recorded failure is replayed.
        cost: what is charged: a call if anything was sent, the time, and the tokens and money that the server reported.
        paid: what this call itself cost; nothing where ``cached``.
    """

    def __init__(
        self,
        message: str,
        kind: ServiceKind,
        attempts: int = 0,
        wasted_ms: float = 0.0,
        cached: bool = False,
        prompt_tokens: int = 0,
        completion_tokens: int = 0,
        usd: float = 0.0,
    ) -> None:
        super().__init__(message)
        self.kind: ServiceKind = kind
        self.attempts = attempts
        self.wasted_ms = wasted_ms
        self.cached = cached
        self.prompt_tokens = prompt_tokens
        self.completion_tokens = completion_tokens
        self.usd = usd
        tokens = prompt_tokens + completion_tokens
        self.cost = CostObject(tokens=tokens, calls=min(1, attempts), latency_ms=wasted_ms, usd=usd)
        self.paid = CostObject() if cached else self.cost

    def priced(self, price: Price) -> ServiceError:
        """This error with the price of its tokens in dollars."""
        usd = price.usd(self.prompt_tokens, self.completion_tokens)
        return type(self)(*self._told(), usd)

    def with_hint(self, hint: str) -> ServiceError:
        """This error with a hint behind its message."""
        return type(self)(f"{self}; {hint}", *self._told()[1:], self.usd)

    def _told(self) -> tuple[str, ServiceKind, int, float, bool, int, int]:
        bill = self.prompt_tokens, self.completion_tokens
        return str(self), self.kind, self.attempts, self.wasted_ms, self.cached, *bill

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (*self._told(), self.usd)


class NoVerdictError(LLMError, InconclusiveError):
    """No document was scored because the request's own time was over, or because nothing was sent to a service that
    had failed before. Neither shows whether the service works now.
    """


class NeverSentError(NoVerdictError, NotAskedError):
    """No call of the batch was sent, since the service had failed before."""


def no_scores(message: str, errors: Iterable[LLMError | str]) -> LLMError:
    """Returns the error of a batch without any score.

    Args:
        message: the error's text.
        errors: why each call brought no score; a text stands for an answer that could not be used.

    Returns:
        :class:`NoVerdictError` if there are errors, all of kind ``deadline`` or ``circuit_open``;
        :class:`NeverSentError` if all are of the second kind.
    """
    kinds = {error.kind if isinstance(error, ServiceError) else "" for error in errors}
    if kinds == {"circuit_open"}:
        return NeverSentError(message)
    return (NoVerdictError if kinds and kinds <= {"deadline", "circuit_open"} else LLMError)(message)


class CircuitOpenError(ServiceError):
    """Nothing was sent, because the service failed too often in a row; the message says how long to wait."""


class AnswerError(LLMError):
    """An answer was got, and billed, that cannot be used.

    Attributes:
        kind: ``truncated`` (cut off at max_tokens), ``refusal``, ``empty``, ``malformed_json``, ``wrong_enum`` (a value
            that is not one of those allowed), ``wrong_count`` (a list too short or too long), ``wrong_shape``.
        result: the answer with its bill, the repair's included.
        cost: what is charged for the answer.
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
