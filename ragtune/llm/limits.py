"""How long an answer may be, and how long a model may think before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ragtune.core.arguments import check_count
from ragtune.core.request.budget import CostTracker
from ragtune.core.types import CostObject
from ragtune.llm.types import Price


@dataclass(frozen=True)
class AnswerLimit:
    """The most tokens of an answer and of the thoughts before it.

    Attributes:
        answer: tokens of the answer without thoughts, >= 1.
        option: the option that sets them and its value, for messages.
        thinking: tokens of the thoughts, >= 0; None for the client's ``thinking_tokens``.
        is_short: whether the budget allows less thinking than the client would.
    """

    answer: int
    option: str
    thinking: int | None = None
    is_short: bool = False

    @property
    def total(self) -> int:
        """The limit that the request states."""
        return self.answer + (self.thinking or 0)

    @property
    def advice(self) -> str:
        """What to do where an answer was cut off."""
        room = f"thinking_tokens={self.thinking} of the language model"
        if self.is_short:
            room = f"the budget's tokens or dollars, which leave {self.thinking} tokens for its thoughts"
        return f"raise {self.option}, or {room}"

    @classmethod
    def of(cls, given: int | AnswerLimit) -> AnswerLimit:
        """The limit that a caller asks for.

        Raises:
            ConfigError: on a number below 1.
        """
        if isinstance(given, AnswerLimit):
            return given
        return cls(check_count("llm max_tokens", given, low=1), f"max_tokens={given}")

    def within(self, tracker: CostTracker, price: Price, thinking: int, calls: Callable[[], int]) -> AnswerLimit:
        """This limit with as much thinking as the budget can pay for, halved until it can.

        Args:
            tracker: the request's account, on which the answers are charged already.
            price: the price of the model's tokens.
            thinking: tokens of thoughts that a call should have.
            calls: returns the number of calls that share the rest; only used where tokens or dollars are limited.
        """
        room = thinking
        if tracker.budget.max_tokens is not None or tracker.budget.max_cost_usd is not None:
            count = calls()
            while room and tracker.shortfall(_thoughts(count * room, price)) is not None:
                room //= 2
        return replace(self, thinking=room, is_short=room < thinking)


def _thoughts(tokens: int, price: Price) -> CostObject:
    return CostObject(tokens=tokens, usd=price.usd(0, tokens))
