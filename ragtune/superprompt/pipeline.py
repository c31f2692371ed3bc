"""The controller: eight stages in order, one at a time or all at once (rule E13)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ragtune.core.errors import ConfigError, StageError
from ragtune.core.request.clock import Clock
from ragtune.llm.client import LLMClient
from ragtune.llm.types import ChatResult, Message
from ragtune.superprompt.limits import PipelineConfig
from ragtune.superprompt.reading.text import BLOCKS, blocks
from ragtune.superprompt.stages.base import ORDER, BaseStage
from ragtune.superprompt.super_prompt import LIFECYCLE, SuperPrompt


class Pipeline:
    """Runs stages on SuperPrompts. It holds the stages and the configuration, and no prompt.

    Args:
        stages: the eight stages in order.
        config: configuration of every stage; None takes the packaged one.
        clock: clock for the stages' milliseconds; None for the monotonic clock. On a virtual clock two runs give the
            same bytes.

    Raises:
        ConfigError: unless the stages are exactly those of :data:`ORDER`.

    Example:
        >>> from ragtune.superprompt import SuperPrompt
        >>> from ragtune.superprompt.pipeline import build_pipeline
        >>> pipeline = build_pipeline(rerank_stage=None)
        >>> done = pipeline.run_all(SuperPrompt.raw("Task: explain sourdough"))
        >>> done.stage, done.prompt_ready.split()[:2]
        ('a5', ['#', 'System'])
    """

    def __init__(
        self, stages: Sequence[BaseStage], config: PipelineConfig | None = None, clock: Clock | None = None
    ) -> None:
        self.config = config or PipelineConfig.load()
        self.stages: Mapping[str, BaseStage] = {stage.name: stage for stage in stages}
        self._clock = clock
        given = tuple(stage.name for stage in stages)
        if given != ORDER:
            raise ConfigError(f"stages={', '.join(given)}: allowed are exactly {', '.join(ORDER)}, in this order")

    def run_stage(self, name: str, sp: SuperPrompt) -> SuperPrompt:
        """Return the SuperPrompt after one stage; the given one never changes.

        A0 may run at any time and begins again. Another stage runs only when it is next
        (:func:`ragtune.superprompt.stages.base.next_stage`).

        Raises:
            StageError: on an unknown name, out of order, or if the stage fails (``FailedStageError``).
        """
        if name not in self.stages:
            raise StageError(f"stage {name!r}: allowed are {', '.join(ORDER)}")
        problem = sp.problem()
        if problem is not None and name != ORDER[0]:
            raise StageError(f"the prompt is inconsistent ({problem}): run {ORDER[0]} to begin again")
        return self.stages[name](sp, self.config, self._clock)

    def run_all(self, sp: SuperPrompt, after: Callable[[str, SuperPrompt], None] | None = None) -> SuperPrompt:
        """Run all stages from A0 to Prompt_Builder.

        Args:
            sp: a SuperPrompt at any stage; it begins again.
            after: function that is called with the name and outcome of every stage, e.g. to show progress.

        Raises:
            StageError: from the stage that fails; ``after`` has received all stages before it.
        """
        for name in ORDER:
            sp = self.run_stage(name, sp)
            if after is not None:
                after(name, sp)
        return sp


def answer(sp: SuperPrompt, client: LLMClient | None) -> ChatResult:
    """Send the final prompt to a language model, the last step of auto mode, and return its answer with the cost.

    System_MD is the system message. The other blocks of ``prompt_ready`` are the user's message. The SuperPrompt stays
    unchanged.

    Raises:
        StageError: without a language model, or before Prompt_Builder has run.
        LLMError: if there is no usable answer.
    """
    system = blocks([(BLOCKS[0], sp.system_md)])
    if sp.stage != LIFECYCLE[-1] or not sp.system_md or not sp.prompt_ready.startswith(system):
        raise StageError(f"the final prompt is not there yet: run the stages up to {ORDER[-1]}")
    if client is None:
        raise StageError("there is no language model to answer: give one, or take prompt_ready to a model yourself")
    return client.chat([Message("system", system), Message("user", sp.prompt_ready[len(system) :].lstrip("\n"))])
