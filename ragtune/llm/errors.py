"""Errors of language model calls: no answer from the service, or an answer that cannot be used."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from ragtune.core.errors import InconclusiveError, LLMError, NotAskedError
from ragtune.core.types import FREE, CostObject
from ragtune.llm.types import ChatResult

ServiceKind = Literal[
    "rate_limited",
    "unavailable",
    "timeout",
    "deadline",
    "connection",
    "rejected",
    "oversized",
    "malformed_response",
    "too_large",
    "circuit_open",
]
AnswerKind = Literal["truncated", "refusal", "empty", "malformed_json", "wrong_enum", "wrong_count", "wrong_shape"]


class ServiceError(LLMError):
    """The service gave no answer: it failed after all retries, refused the request, or took too long.

    Attributes:
        kind: ``rate_limited`` (429), ``unavailable`` (5xx), ``timeout`` (no whole reply within ``timeout_s``),
            ``deadline`` (the caller's time ran out first), ``connection``, ``rejected`` (other 4xx),
            ``oversized`` (413), ``malformed_response`` (no chat completion in the body), ``too_large`` (the body),
            ``circuit_open`` (nothing was sent).
        attempts: requests sent.
        latency_ms: milliseconds spent on them and between them.
        prompt_tokens: tokens read, as far as the server reported any.
        completion_tokens: tokens written, as far as the server reported any.
        usd: dollars for those tokens.
        unanswered: requests sent that got no whole reply. The service may have done their work, and may bill it.
        cached: whether a recorded failure is replayed.
    """

    def __init__(
        self,
        message: str,
        kind: ServiceKind,
        attempts: int = 0,
        latency_ms: float = 0.0,
        prompt_tokens: int = 0,
        completion_tokens: int = 0,
        cached: bool = False,
    ) -> None:
        super().__init__(message)
        self.kind: ServiceKind = kind
        self.attempts = attempts
        self.latency_ms = latency_ms
        self.prompt_tokens = prompt_tokens
        self.completion_tokens = completion_tokens
        self.usd = 0.0
        self.unanswered = 0
        self.cached = cached

    @property
    def cost(self) -> CostObject:
        """What is charged: a call if anything was sent, the time, and the tokens and money that were reported."""
        tokens = self.prompt_tokens + self.completion_tokens
        return CostObject(tokens=tokens, calls=min(1, self.attempts), latency_ms=self.latency_ms, usd=self.usd)

    @property
    def paid(self) -> CostObject:
        """What this call itself cost: nothing if the failure was recorded."""
        return FREE if self.cached else self.cost

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.kind), self.__dict__


class NoVerdictError(LLMError, InconclusiveError):
    """No document was scored because the request's own time was over, or because nothing was sent to a service that
    had failed before. Neither shows whether the service works now.
    """


class NeverSentError(NoVerdictError, NotAskedError):
    """No call of the batch was sent: the service had failed before, or asks to wait for longer than there is time."""


def no_scores(message: str, errors: Iterable[LLMError | str]) -> LLMError:
    """Return the error of a batch without any score; a text stands for an answer that could not be used."""
    failed = {(e.kind, e.attempts > 0) if isinstance(e, ServiceError) else ("", True) for e in errors}
    if not failed or not {kind for kind, _ in failed} <= {"deadline", "circuit_open"}:
        return LLMError(message)
    return (NoVerdictError if any(is_sent for _, is_sent in failed) else NeverSentError)(message)


class AnswerError(LLMError):
    """The service gave an answer, and billed it, that cannot be used.

    Attributes:
        kind: ``truncated`` (cut off at max_tokens), ``refusal``, ``empty``, ``malformed_json``, ``wrong_enum`` (a value
            that is not allowed), ``wrong_count`` (a list too short or too long), ``wrong_shape``.
        result: the answer with its bill.
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
