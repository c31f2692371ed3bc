"""Stages with a language model: an agent answers, or a documented rule without one."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Generic, TypeVar

from ragtune.core.errors import CacheMissError, LLMError, StageError
from ragtune.core.request.context import CostMeter
from ragtune.llm.errors import AnswerError, ServiceError
from ragtune.superprompt.limits import PipelineConfig
from ragtune.superprompt.rendering import compose_prompt_ready
from ragtune.superprompt.stages.base import BaseStage
from ragtune.superprompt.super_prompt import SuperPrompt

AgentT = TypeVar("AgentT")
AnswerT = TypeVar("AnswerT")


class AgentStage(BaseStage, Generic[AgentT, AnswerT]):
    """A stage whose answer comes from an agent or, without one, from a documented rule.

    ``config.llm_off`` chooses between the rule and a refusal for a missing agent, ``config.llm_failure`` for an agent
    that fails. ``extras["llm"][name]`` reports who answered and why. ``ask`` and ``default`` only read the SuperPrompt,
    and only ``write`` changes it, so a failed answer leaves no trace.

    Args:
        agent: the agent; None for no language model.
    """

    def __init__(self, agent: AgentT | None = None) -> None:
        self.agent = agent

    @abstractmethod
    def ask(self, agent: AgentT, sp: SuperPrompt, config: PipelineConfig, meter: CostMeter) -> AnswerT:
        """Return the agent's checked answer, and charge its cost to ``meter``."""

    def has_question(self, sp: SuperPrompt, config: PipelineConfig) -> bool:
        """Return whether there is anything to ask; if not, the rule answers and nothing is sent."""
        return True

    @abstractmethod
    def default(self, sp: SuperPrompt, config: PipelineConfig) -> AnswerT:
        """Return the rule's deterministic answer."""

    @abstractmethod
    def write(self, sp: SuperPrompt, config: PipelineConfig, answer: AnswerT) -> None:
        """Write the answer into the SuperPrompt, within ``config.limits``."""

    def apply(self, sp: SuperPrompt, config: PipelineConfig, meter: CostMeter) -> None:
        answer, record = self._answer(sp, config, meter)
        self.write(sp, config, answer)
        sp.extras.setdefault("llm", {})[self.name] = record
        if "prompt_ready" in self.writes:
            sp.prompt_ready = compose_prompt_ready(sp, config.prompt_schema)

    def _answer(self, sp: SuperPrompt, config: PipelineConfig, meter: CostMeter) -> tuple[AnswerT, dict[str, Any]]:
        if self.agent is None:
            require_fallback(config, self.name)
            return self.default(sp, config), {"used": False, "reason": "llm_off"}
        if not self.has_question(sp, config):
            return self.default(sp, config), {"used": False, "reason": "nothing_to_ask"}
        try:
            return self.ask(self.agent, sp, config, meter), {"used": True, "reason": "agent"}
        except LLMError as error:
            charge_failure(error, meter)
            # An incomplete record is bad input: no rule replaces a recorded answer.
            if config.llm_failure == "refuse" or isinstance(error, CacheMissError):
                raise
            return self.default(sp, config), {"used": False, "reason": "llm_failure", "error": str(error)}


def require_fallback(config: PipelineConfig, name: str) -> None:
    """Refuse a stage without its agent unless the configuration allows its rule."""
    if config.llm_off == "refuse":
        raise StageError(f"{name} has no language model: give it an agent, or set llm_off to 'default' for its rule")


def charge_failure(error: LLMError, meter: CostMeter) -> None:
    """Charge the cost of a failed call to the meter."""
    if isinstance(error, ServiceError | AnswerError):
        meter.charge(error.cost)
        meter.pay(error.paid)
