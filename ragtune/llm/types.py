"""What goes into a language model's call and what comes out of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from ragtune.core.arguments import check_choice, check_count, check_number
from ragtune.core.errors import ConfigError
from ragtune.core.plain import well_formed as well_formed
from ragtune.core.request.budget import CostTracker
from ragtune.core.types import FREE, CostObject

T = TypeVar("T", bound=BaseModel)

ROLES = ("system", "user", "assistant")


@dataclass(frozen=True)
class Message:
    """One turn of a conversation.

    Attributes:
        role: ``system``, ``user`` or ``assistant``.
        content: any text; lone surrogates become ``?``.

    Raises:
        ConfigError: on an unknown role.

    Examples:
        >>> from ragtune.llm.types import Message
        >>> Message("user", "Which passage answers the question?").role
        'user'
    """

    role: str
    content: str

    def __post_init__(self) -> None:
        check_choice("message role", self.role, ROLES)
        object.__setattr__(self, "content", well_formed(self.content))


@dataclass(frozen=True)
class Price:
    """US dollars per 1,000 tokens.

    Attributes:
        prompt: price of 1,000 tokens that are sent, >= 0.
        completion: price of 1,000 tokens of answers, >= 0; embeddings have none.

    Raises:
        ConfigError: on an amount that is negative or not a number.

    Examples:
        >>> from ragtune.llm.types import Price
        >>> round(Price(prompt=0.00015, completion=0.0006).usd(2000, 100), 6)
        0.00036
    """

    prompt: float = 0.0
    completion: float = 0.0

    def __post_init__(self) -> None:
        check_number("price prompt", self.prompt, low=0.0)
        check_number("price completion", self.completion, low=0.0)

    @classmethod
    def of(cls, model: str, value: Price | Mapping[str, float]) -> Price:
        """A price as configuration gives it: ``{prompt: 0.00015, completion: 0.0006}``.

        Raises:
            ConfigError: naming the model and what is wrong with its price.
        """
        if isinstance(value, Price):
            return value
        if not isinstance(value, Mapping) or set(value) - {"prompt", "completion"}:
            raise ConfigError(f"prices[{model!r}]={value!r}: allowed are prompt and completion, dollars per 1k tokens")
        return cls(**value)

    @classmethod
    def in_table(cls, model: str, prices: Mapping[str, Price | Mapping[str, float]] | None) -> Price:
        """A model's price; a price of 0 where there is no table.

        Raises:
            ConfigError: if the table lacks the model, or a price is unusable.
        """
        if not prices:
            return cls()
        table = {name: cls.of(name, value) for name, value in prices.items()}
        if model not in table:
            raise ConfigError(
                f"llm model={model!r} has no price: add prices[{model!r}]={{prompt: 0, completion: 0}} in dollars per "
                f"1k tokens, or give prices=null for a free server; priced are {', '.join(sorted(table))}"
            )
        return table[model]

    def usd(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Dollars for the given numbers of tokens."""
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1000.0


@dataclass(frozen=True, kw_only=True)
class ChatResult:
    """A model's answer and its bill, the same from the service and from the record but for ``cached`` and ``paid``."""

    text: str
    refusal: str = ""  # empty if it did not refuse
    model: str
    finish_reason: str
    prompt_tokens: int  # by the server's count if credible, with those of failed attempts
    completion_tokens: int  # as well
    usd: float
    latency_ms: float  # with failed attempts and waits
    attempts: int  # requests sent, failed ones included
    is_estimated: bool = False  # tokens were counted here
    cached: bool

    @property
    def cost(self) -> CostObject:
        """What is charged, whether the answer was paid for now or earlier (rule B8)."""
        tokens = self.prompt_tokens + self.completion_tokens
        return CostObject(tokens=tokens, calls=1, latency_ms=self.latency_ms, usd=self.usd)

    @property
    def paid(self) -> CostObject:
        """What this call itself cost: nothing if the answer was recorded."""
        return FREE if self.cached else self.cost


@dataclass(frozen=True, kw_only=True)
class JsonResult(ChatResult, Generic[T]):
    """An answer in JSON."""

    parsed: T


@dataclass(frozen=True, kw_only=True)
class EmbeddingResult:
    """Vectors and their bill."""

    vectors: NDArray[np.float32]  # shape (texts, d), not normalised; (0, 0) for no texts
    cost: CostObject  # times of batches are added up


@dataclass(frozen=True)
class AnswerLimit:
    """The most tokens of an answer and of the thoughts before it."""

    answer: int  # tokens without thoughts, >= 1
    option: str  # the option that sets them and its value, for messages
    thinking: int | None = None  # tokens of thoughts, >= 0; None for the client's
    is_short: bool = False  # the budget allows less thinking than the client would

    @property
    def total(self) -> int:
        return self.answer + (self.thinking or 0)

    @property
    def advice(self) -> str:
        room = f"thinking_tokens={self.thinking} of the language model"
        if self.is_short:
            room = f"the budget's tokens or dollars, which leave {self.thinking} tokens for its thoughts"
        return f"raise {self.option}, or {room}"

    @classmethod
    def of(cls, given: int | AnswerLimit) -> AnswerLimit:
        if isinstance(given, AnswerLimit):
            return given
        return cls(check_count("llm max_tokens", given, low=1), f"max_tokens={given}")

    def within(self, tracker: CostTracker, price: Price, thinking: int, calls: Callable[[], int]) -> AnswerLimit:
        """This limit with as much thinking as the budget can pay for, halved until it can."""
        room = thinking
        if tracker.budget.max_tokens is not None or tracker.budget.max_cost_usd is not None:
            count = calls()
            while room and tracker.shortfall(_thoughts(count * room, price)) is not None:
                room //= 2
        return replace(self, thinking=room, is_short=room < thinking)


def _thoughts(tokens: int, price: Price) -> CostObject:
    return CostObject(tokens=tokens, usd=price.usd(0, tokens))
