"""What all agents have in common: one configuration, one client, and costs that are told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Generic, TypeVar

from ragtune.core.errors import ConfigError, LLMError
from ragtune.core.request.context import CostMeter
from ragtune.llm.client import LLMClient
from ragtune.llm.limits import AnswerLimit
from ragtune.llm.types import JsonResult, Message
from ragtune.superprompt.agents.config import AgentConfig
from ragtune.superprompt.agents.contracts import Contract
from ragtune.superprompt.agents.prompt import AgentPrompt

ConfigT = TypeVar("ConfigT", bound=AgentConfig)


class BaseAgent(Generic[ConfigT]):
    """Asks a language model one kind of question; remembers nothing.

    What its answers cost it charges to the meter that it is given. What the ``LLMError`` cost that it raises is for
    the caller to charge, so that no call is charged twice.

    Args:
        config: configuration of the agent.
        client: client of the service; it is asked with the configuration's model and temperature.

    Raises:
        ConfigError: on a configuration of another kind.

    Attributes:
        accepts: class of configuration that the agent takes.
    """

    accepts: ClassVar[type[AgentConfig]]

    def __init__(self, config: ConfigT, client: LLMClient) -> None:
        if not isinstance(config, self.accepts):
            raise ConfigError(f"agent {config.title}: a {type(self).__name__} needs a {self.accepts.__name__}")
        self.config = config
        self.client = client.variant(model=config.model, temperature=config.temperature)
        self.prompt = AgentPrompt(config)

    def _ask(self, messages: Sequence[Message], contract: type[Contract], meter: CostMeter) -> Contract:
        return self._ask_all([messages], contract, meter)[0]

    def _ask_all(
        self, conversations: Sequence[Sequence[Message]], contract: type[Contract], meter: CostMeter
    ) -> list[Contract]:
        """All answers in order, or the first error; every other call's cost is charged whatever became of it."""
        most = self.config.max_output_tokens
        outcomes: list[JsonResult[Contract] | LLMError] = self.client.chat_json_many(
            conversations, contract, max_tokens=AnswerLimit(most, f"{self.config.title} max_output_tokens={most}")
        )
        failed = next((outcome for outcome in outcomes if isinstance(outcome, LLMError)), None)
        for outcome in outcomes:
            if outcome is not failed:
                meter.charge(LLMClient.cost(outcome))
                meter.pay(LLMClient.paid(outcome))
        if failed is not None:
            raise failed
        return [outcome.parsed for outcome in outcomes if isinstance(outcome, JsonResult)]
