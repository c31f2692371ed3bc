"""The controller: eight stages in their one order, by hand or all at once (rule E13)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from ragtune.core.errors import ConfigError, StageError
from ragtune.core.request.clock import Clock
from ragtune.superprompt.limits import PipelineConfig
from ragtune.superprompt.stages.base import ORDER, BaseStage, next_stage
from ragtune.superprompt.super_prompt import LIFECYCLE, SuperPrompt


class Pipeline:
    """Runs stages on SuperPrompts; holds the stages and the configuration, and nothing of any prompt.

    Args:
        stages: the eight stages in their order.
        config: configuration that every stage is given; None takes the packaged one.
        clock: where the stages' milliseconds are read from; None for the monotonic clock. On a virtual clock two runs
            are equal to the last byte of ``extras``.

    Raises:
        ConfigError: unless the stages are exactly those of :data:`ORDER`, each starting where the one before ends.
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
        expected = [*pairwise(LIFECYCLE), (LIFECYCLE[-1], LIFECYCLE[-1])]
        for stage, (requires, completes) in zip(stages, expected, strict=True):
            if (stage.requires, stage.completes) != (requires, completes):
                raise ConfigError(
                    f"{stage.name} leads to {stage.completes!r}: allowed is {requires!r} -> {completes!r}"
                )

    def next_stage(self, sp: SuperPrompt) -> str:
        """Name of the stage whose turn it is; at ``a5`` always Prompt_Builder. A0 may always be run to begin again."""
        return next_stage(sp)

    def can_run(self, name: str, sp: SuperPrompt) -> bool:
        """Whether a stage may run now: what a page enables its buttons by."""
        return name in (ORDER[0], next_stage(sp))

    def run_stage(self, name: str, sp: SuperPrompt) -> SuperPrompt:
        """The SuperPrompt after one stage; the given one is as it was, whatever happens.

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
        """All stages from A0 to Prompt_Builder.

        Args:
            sp: a SuperPrompt at any stage; it begins again.
            after: function that is called with name and outcome of every stage, e.g. to show progress or keep what was
                reached.

        Raises:
            StageError: from the stage that fails; ``after`` has seen everything before it.
        """
        for name in ORDER:
            sp = self.run_stage(name, sp)
            if after is not None:
                after(name, sp)
        return sp
