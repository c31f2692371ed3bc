"""What goes into a language model's call and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from ragtune.core.arguments import check_choice, check_number
from ragtune.core.errors import ConfigError
from ragtune.core.plain import well_formed as well_formed
from ragtune.core.types import CostObject

T = TypeVar("T", bound=BaseModel)

ROLES = ("system", "user", "assistant")


def well_formed_json(value: Any) -> Any:
    """The JSON value with every text made :func:`well_formed`: JSON's escapes can spell lone surrogates."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, list):
        return [well_formed_json(entry) for entry in value]
    if isinstance(value, dict):
        return {well_formed(name): well_formed_json(entry) for name, entry in value.items()}
    return value


@dataclass(frozen=True)
class Message:
    """One turn of a conversation.

    Attributes:
        role: ``system``, ``user`` or ``assistant``.
        content: any text; lone surrogates become ``?``.

    Raises:
        ConfigError: on an unknown role.
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
        completion: price of 1,000 tokens that are answered, >= 0; embeddings have none.

    Raises:
        ConfigError: on an amount that is negative or not a number.
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
            ConfigError: if the table lacks the model or holds a price that is none.
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
    """A model's answer and its bill.

    Everything but ``cached`` and ``paid`` is the same whether the answer comes from the service or from the record.

    Attributes:
        text: what the model said.
        model: the model as the server names it.
        prompt_tokens: tokens read, by the server's count (counted here where it gives none that can be believed),
            those included that it reported for attempts without a usable reply.
        completion_tokens: tokens written, counted in the same way.
        usd: dollars by the price table.
        latency_ms: milliseconds of the requests that were answered.
        cached: whether nothing was sent.
        finish_reason: ``stop``, ``length``, ``content_filter``, ...
        attempts: requests it took, failed ones included.
        wasted_ms: milliseconds of failed requests and of waiting for the next.
        calls: what it took: 1, or 2 where a request for a repair was sent, answered or not.
        is_estimated: whether tokens were counted here by rule, since the server did not tell them.
        paid: what this call itself cost, nothing where ``cached``.
    """

    text: str
    model: str
    prompt_tokens: int
    completion_tokens: int
    usd: float
    latency_ms: float
    cached: bool
    finish_reason: str
    attempts: int
    wasted_ms: float = 0.0
    calls: int = 1
    is_estimated: bool = False
    paid: CostObject = field(default_factory=CostObject)

    @property
    def cost(self) -> CostObject:
        """What is charged for it, paid anew or not (rule B8: charged and actual are separate figures).

        The time is all that passed when the answer was made, its failed attempts and waits included.
        """
        tokens = self.prompt_tokens + self.completion_tokens
        elapsed_ms = self.latency_ms + self.wasted_ms
        return CostObject(tokens=tokens, calls=self.calls, latency_ms=elapsed_ms, usd=self.usd)


@dataclass(frozen=True, kw_only=True)
class JsonResult(ChatResult, Generic[T]):
    """An answer in JSON.

    Attributes:
        parsed: the answer as the model that was asked for.
    """

    parsed: T


@dataclass(frozen=True, kw_only=True)
class EmbeddingResult:
    """Vectors and their bill.

    Attributes:
        vectors: shape (number of texts, d), float32, as the server gave them (not normalised); (0, 0) for no texts.
        model: the model asked for.
        prompt_tokens: tokens read.
        usd: dollars by the price table.
        latency_ms: milliseconds of the requests, failed attempts and waits included, summed over batches.
        cached: whether nothing was sent.
        attempts: requests it took now, failed ones included; 0 where ``cached``.
        calls: batches that the texts make.
        is_estimated: whether tokens were counted here by rule, since the server did not tell them.
        paid: what this call itself cost.
    """

    vectors: NDArray[np.float32]
    model: str
    prompt_tokens: int
    usd: float
    latency_ms: float
    cached: bool
    attempts: int
    calls: int
    is_estimated: bool = False
    paid: CostObject = field(default_factory=CostObject)

    @property
    def cost(self) -> CostObject:
        """What is charged for the vectors, whether they were paid for anew or not."""
        return CostObject(tokens=self.prompt_tokens, calls=self.calls, latency_ms=self.latency_ms, usd=self.usd)
