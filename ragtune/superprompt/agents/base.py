"""What all agents share: one configuration, one client, and charged costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Generic, TypeVar

from ragtune.core.errors import ConfigError, LLMError
from ragtune.core.request.context import CostMeter
from ragtune.llm.client import LLMClient
from ragtune.llm.types import AnswerLimit, JsonResult, Message
from ragtune.superprompt.agents.config import AgentConfig
from ragtune.superprompt.agents.contracts import Contract
from ragtune.superprompt.agents.prompt import AgentPrompt

ConfigT = TypeVar("ConfigT", bound=AgentConfig)


class BaseAgent(Generic[ConfigT]):
    """Asks a language model one kind of question, and remembers nothing.

    It charges the cost of answers to the meter. The caller charges the cost of a raised ``LLMError``.

    Attributes:
        accepts: class of the configuration.
    """

    accepts: ClassVar[type[AgentConfig]]

    def __init__(self, config: ConfigT, client: LLMClient) -> None:
        if not isinstance(config, self.accepts):
            raise ConfigError(f"agent {config.title}: a {type(self).__name__} needs a {self.accepts.__name__}")
        self.config = config
        self.client = client.variant(model=config.model, temperature=config.temperature)
        self.prompt = AgentPrompt(config)

    def _ask(
        self, conversations: Sequence[Sequence[Message]], contract: type[Contract], meter: CostMeter
    ) -> list[Contract]:
        """Return all answers in order, or raise the first error; the costs of all other calls are charged."""
        limit = self.config.max_output_tokens
        outcomes: list[JsonResult[Contract] | LLMError] = self.client.chat_json_many(
            conversations, contract, max_tokens=AnswerLimit(limit, f"{self.config.title} max_output_tokens={limit}")
        )
        failed = next((outcome for outcome in outcomes if isinstance(outcome, LLMError)), None)
        for outcome in outcomes:
            if outcome is not failed:
                meter.charge(LLMClient.cost(outcome))
                meter.pay(LLMClient.paid(outcome))
        if failed is not None:
            raise failed
        return [outcome.parsed for outcome in outcomes if isinstance(outcome, JsonResult)]
