"""What a stage is: a memoryless, atomic function ``(SuperPrompt, config) -> SuperPrompt`` (rule E2)."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from ragtune.core.errors import StageError
from ragtune.core.request.clock import Clock, MonotonicClock
from ragtune.core.request.context import CostMeter
from ragtune.core.types import CostObject
from ragtune.superprompt.limits import PipelineConfig
from ragtune.superprompt.super_prompt import LIFECYCLE, Lifecycle, SuperPrompt

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

_DIGITS = 3
_BOOKKEEPING = frozenset({"stage", "history_of_stages", "extras"})


class FailedStageError(StageError):
    """A stage began and failed; the SuperPrompt is as it was.

    Attributes:
        stage: the stage's name.
        cost: what was charged until then, which no retry gives back.
        paid: what this run really paid of that cost.
    """

    def __init__(self, message: str, stage: str, cost: CostObject, paid: CostObject) -> None:
        super().__init__(message)
        self.stage = stage
        self.cost = cost
        self.paid = paid

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.stage, self.cost, self.paid)


class BaseStage(ABC):
    """One step of the pipeline. Calling it works on a copy: the SuperPrompt that it is given never changes.

    A subclass declares its place and what it may write, and implements :meth:`apply`; order, atomicity, invariants,
    caps, bookkeeping and costs are dealt with here. Collaborators (memory, reranker, agent) arrive through the
    constructor; nothing is remembered from one call to the next.

    Attributes:
        name: name of the stage, as in :data:`ORDER`.
        requires: value of ``SuperPrompt.stage`` that the stage starts from.
        completes: value that the stage ends with; Prompt_Builder's is the one that it starts from.
        writes: further fields of the SuperPrompt that it may change, by their Python names; ``stage``,
            ``history_of_stages`` and ``extras`` go without saying.
    """

    name: ClassVar[str]
    requires: ClassVar[Lifecycle]
    completes: ClassVar[Lifecycle]
    writes: ClassVar[frozenset[str]]

    @abstractmethod
    def apply(self, sp: SuperPrompt, config: PipelineConfig, meter: CostMeter) -> None:
        """Do the work on ``sp``, which is a copy; ``stage`` and ``history_of_stages`` are set by the caller.

        Args:
            sp: the working copy.
            config: limits, switches and the prompt schema.
            meter: meter that charged and really paid costs are reported to.

        Raises:
            StageError: if the stage cannot do its work; the message says what to do.
        """

    def admit(self, sp: SuperPrompt) -> SuperPrompt:
        """What this stage starts from: a SuperPrompt whose turn it is, as it is.

        Raises:
            StageError: if it is not this stage's turn; the message names the stage whose turn it is.
        """
        if sp.stage != self.requires:
            turn = next_stage(sp)
            raise StageError(
                f"{self.name} needs stage {self.requires!r}, but the prompt is at {sp.stage!r}: "
                f"run {turn} now, or {ORDER[0]} to begin again"
            )
        return sp

    def __call__(self, sp: SuperPrompt, config: PipelineConfig, clock: Clock | None = None) -> SuperPrompt:
        """The SuperPrompt after this stage; the given one is left as it is.

        Args:
            sp: a SuperPrompt whose turn it is.
            config: limits, switches and the prompt schema.
            clock: clock that the stage's milliseconds are read from; the monotonic clock by default.

        Raises:
            StageError: if it is not this stage's turn.
            FailedStageError: on any failure of the stage itself; it carries what was paid.
        """
        before = self.admit(sp)
        work = before.model_copy(deep=True)
        meter = CostMeter()
        clock = clock or MonotonicClock()
        started = clock.now_ms()
        try:
            self.apply(work, config, meter)
            self._complete(work)
            self._check(before, work, config)
            _log_cost(work, self.name, meter, clock.now_ms() - started)
        except Exception as error:
            raise FailedStageError(
                _explain(self.name, error, sp.stage), self.name, meter.charged or CostObject(), meter.actual
            ) from error
        return work

    def _complete(self, work: SuperPrompt) -> None:
        if self.completes != self.requires:
            work.stage = self.completes
            work.history_of_stages.append(self.completes)

    def _check(self, before: SuperPrompt, work: SuperPrompt, config: PipelineConfig) -> None:
        allowed = self.writes | _BOOKKEEPING
        for field in SuperPrompt.model_fields:
            if field not in allowed and getattr(before, field) != getattr(work, field):
                raise StageError(f"it changed {field}, which is not its to write")
        problem = work.problem() or _excess(work, config)
        if problem is not None:
            raise StageError(f"it broke an invariant: {problem}")


def next_stage(sp: SuperPrompt) -> str:
    """The stage whose turn it is; Prompt_Builder for all of ``a5``, since it may be run again."""
    return ORDER[LIFECYCLE.index(sp.stage)]


def _excess(sp: SuperPrompt, config: PipelineConfig) -> str | None:
    """Which cap the latest view exceeds, in words, or None (rule E14)."""
    limits = config.limits
    caps = {
        "retrieval": ("N1_RETR_MAX_CANDIDATES", limits.n1_retr_max_candidates),
        "reranked": ("N2_RERANK_TOP_K", limits.n2_rerank_top_k),
        "a4": ("N3_FINAL_SELECTION_MAX", limits.n3_final_selection_max),
    }
    if sp.stage not in caps:
        return None
    constant, cap = caps[sp.stage]
    size = len(sp.views_by_stage[sp.stage])
    return f"{size} ids in views_by_stage[{sp.stage!r}]: {constant} is {cap}" if size > cap else None


def _log_cost(sp: SuperPrompt, name: str, meter: CostMeter, elapsed_ms: float) -> None:
    charged = meter.charged or CostObject()
    entry = {"stage": name, "ms": round(elapsed_ms, _DIGITS)}
    entry |= {"charged": _plain(charged), "paid": _plain(meter.actual)}
    sp.extras["costs"] = [*sp.extras.get("costs", []), entry]


def _plain(cost: CostObject) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(cost.model_dump_json())
    return {**values, "latency_ms": round(cost.latency_ms, _DIGITS)}


def _explain(name: str, error: Exception, stage: str) -> str:
    reason = str(error) if isinstance(error, StageError) else f"{type(error).__name__}: {error}"
    return f"{name} failed: {reason}. The prompt is still at stage {stage!r}; mend the cause and run {name} again"
