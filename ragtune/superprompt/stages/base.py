"""A stage: a memoryless, atomic function ``(SuperPrompt, config) -> SuperPrompt`` (rule E2)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

from ragtune.core.errors import CacheMissError, LLMError, StageError
from ragtune.core.request.clock import Clock, MonotonicClock
from ragtune.core.request.context import CostMeter
from ragtune.core.types import CostObject
from ragtune.llm.errors import AnswerError, ServiceError
from ragtune.superprompt.options import PipelineConfig
from ragtune.superprompt.rendering import compose_prompt_ready
from ragtune.superprompt.super_prompt import LIFECYCLE, SuperPrompt

ORDER = (
    "A0_PreProcessing",
    "A2_PromptShaper",
    "Retrieval",
    "ReRanker",
    "A3_NLI_Gate",
    "A4_Condenser",
    "A5_Format_Enforcer",
    "Prompt_Builder",
)
"""Names of the stages in their order (rule E1)."""

ConfigT = TypeVar("ConfigT")
AgentT = TypeVar("AgentT")
AnswerT = TypeVar("AnswerT")

_DIGITS = 3


class FailedStageError(StageError):
    """A stage failed, and the SuperPrompt is unchanged; of the charged ``cost`` this run paid ``paid``."""

    def __init__(self, message: str, stage: str, cost: CostObject, paid: CostObject) -> None:
        super().__init__(message)
        self.stage = stage
        self.cost = cost
        self.paid = paid


class BaseStage(ABC):
    """One step of the pipeline. A call works on a copy and never changes the given SuperPrompt.

    A subclass declares its name and implements :meth:`apply`. This class handles order, atomicity, invariants and
    costs. Collaborators (memory, reranker, agent) arrive through the constructor. A stage remembers nothing between
    calls.

    Attributes:
        name: name of the stage, as in :data:`ORDER`.
    """

    name: ClassVar[str]

    @abstractmethod
    def apply(self, sp: SuperPrompt, config: PipelineConfig, meter: CostMeter) -> None:
        """Do the work on ``sp``, a copy, and charge costs to ``meter``. The caller sets the stage and its history."""

    def admit(self, sp: SuperPrompt) -> SuperPrompt:
        """Return the SuperPrompt that this stage starts from, or raise a ``StageError`` that names the next stage."""
        turn = next_stage(sp)
        if turn != self.name:
            raise StageError(
                f"{self.name} needs stage {LIFECYCLE[ORDER.index(self.name)]!r}, but the prompt is at {sp.stage!r}: "
                f"run {turn} now, or {ORDER[0]} to begin again"
            )
        return sp

    def __call__(self, sp: SuperPrompt, config: PipelineConfig, clock: Clock | None = None) -> SuperPrompt:
        """Return the SuperPrompt after this stage; the given one is unchanged."""
        work = self.admit(sp).model_copy(deep=True)
        meter = CostMeter()
        clock = clock or MonotonicClock()
        started = clock.now_ms()
        try:
            self.apply(work, config, meter)
            if self.name != ORDER[-1]:  # Prompt_Builder does not change the stage
                work.stage = LIFECYCLE[ORDER.index(self.name) + 1]
                work.history_of_stages.append(work.stage)
            if (problem := work.problem()) is not None:
                raise StageError(f"it broke an invariant: {problem}")
            _log_cost(work, self.name, meter, clock.now_ms() - started)
        except Exception as error:
            reason = str(error) if isinstance(error, StageError) else f"{type(error).__name__}: {error}"
            message = (
                f"{self.name} failed: {reason}. The prompt is still at stage {sp.stage!r}; "
                f"mend the cause and run {self.name} again"
            )
            raise FailedStageError(message, self.name, meter.charged or CostObject(), meter.actual) from error
        return work


class AgentStage(BaseStage, Generic[ConfigT, AgentT, AnswerT]):
    """A stage whose answer comes from an agent or a documented rule; ``ask`` and ``default`` only read."""

    def __init__(self, config: ConfigT, agent: AgentT | None = None) -> None:
        self.config = config
        self.agent = agent

    @abstractmethod
    def ask(self, agent: AgentT, sp: SuperPrompt, config: PipelineConfig, meter: CostMeter) -> AnswerT:
        """Return the agent's checked answer, and charge its cost to ``meter``."""

    def has_question(self, sp: SuperPrompt) -> bool:
        """Return whether there is anything to ask; if not, the rule answers and nothing is sent."""
        return True

    @abstractmethod
    def default(self, sp: SuperPrompt, config: PipelineConfig) -> AnswerT:
        """Return the rule's deterministic answer."""

    @abstractmethod
    def write(self, sp: SuperPrompt, config: PipelineConfig, answer: AnswerT) -> None:
        """Write the answer into the SuperPrompt, within ``config.limits``."""

    def apply(self, sp: SuperPrompt, config: PipelineConfig, meter: CostMeter) -> None:
        answer: AnswerT | None = None
        record: dict[str, Any] = {"used": False, "reason": "llm_off"}
        if self.agent is not None and not self.has_question(sp):
            record["reason"] = "nothing_to_ask"
        elif self.agent is not None:
            try:
                answer = self.ask(self.agent, sp, config, meter)
                record = {"used": True, "reason": "agent"}
            except LLMError as error:
                record = failure_record(error, config, meter)
        self.write(sp, config, self.default(sp, config) if answer is None else answer)
        sp.extras.setdefault("llm", {})[self.name] = record
        sp.prompt_ready = compose_prompt_ready(sp, config.prompt_schema)


def failure_record(error: LLMError, config: PipelineConfig, meter: CostMeter) -> dict[str, Any]:
    """Charge a failed call, and return the log of the rule that replaces it, or raise the error."""
    if isinstance(error, ServiceError | AnswerError):
        meter.charge(error.cost)
        meter.pay(error.paid)
    if config.llm_failure == "refuse" or isinstance(error, CacheMissError):  # no rule replaces a recorded answer
        raise error
    return {"used": False, "reason": "llm_failure", "error": str(error)}


def next_stage(sp: SuperPrompt) -> str:
    """Return the name of the next stage. At ``a5`` that is Prompt_Builder, which may run again."""
    return ORDER[LIFECYCLE.index(sp.stage)]


def _log_cost(sp: SuperPrompt, name: str, meter: CostMeter, elapsed_ms: float) -> None:
    entry: dict[str, Any] = {"stage": name, "ms": round(elapsed_ms, _DIGITS)}
    for kind, cost in (("charged", meter.charged or CostObject()), ("paid", meter.actual)):
        entry[kind] = cost.model_dump(mode="json") | {"latency_ms": round(cost.latency_ms, _DIGITS)}
    sp.extras["costs"] = [*sp.extras.get("costs", []), entry]
