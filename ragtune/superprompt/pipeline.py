"""The controller: eight stages in order, one at a time or all at once (rule E13)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, TypeVar

from ragtune.core.errors import ConfigError, StageError
from ragtune.core.request.clock import Clock
from ragtune.llm.client import LLMClient
from ragtune.llm.types import ChatResult, Message
from ragtune.superprompt.agents.agent import AgentConfig, BaseAgent, agent_config
from ragtune.superprompt.agents.chooser import Chooser, ChooserConfig
from ragtune.superprompt.agents.writer import Writer
from ragtune.superprompt.memory.documents import BaseMemory, DocumentMemory
from ragtune.superprompt.options import PipelineConfig
from ragtune.superprompt.reading.text import BLOCKS, blocks
from ragtune.superprompt.stages.a0_preprocessing import A0PreProcessing, for_keys
from ragtune.superprompt.stages.a2_promptshaper import A2PromptShaper, ShaperConfig
from ragtune.superprompt.stages.a3_nli_gate import A3NLIGate, GateConfig
from ragtune.superprompt.stages.a4_condenser import A4Condenser, CondenserConfig
from ragtune.superprompt.stages.a5_format_enforcer import A5FormatEnforcer, EnforcerConfig, Extractor
from ragtune.superprompt.stages.base import ORDER, BaseStage
from ragtune.superprompt.stages.prompt_builder import PromptBuilder
from ragtune.superprompt.stages.reranker import BaseRerankStage, ReRanker, TopRerankStage
from ragtune.superprompt.stages.retrieval import Retrieval
from ragtune.superprompt.super_prompt import LIFECYCLE, SuperPrompt

AgentT = TypeVar("AgentT", bound=BaseAgent[Any])


class Pipeline:
    """Runs stages on SuperPrompts. It holds the stages and the configuration, and no prompt.

    Args:
        stages: the eight stages in order.
        config: configuration of every stage; None takes the packaged one.
        clock: clock for the stages' milliseconds; None for the monotonic clock. On a virtual clock two runs give the
            same bytes.

    Raises:
        ConfigError: unless the stages are exactly those of :data:`ORDER`.

    Examples:
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

        A0 may run at any time and begins again. Another stage runs only when it is next.

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


def build_pipeline(
    config: PipelineConfig | None = None,
    *,
    memory: BaseMemory | None = None,
    rerank_stage: BaseRerankStage | Literal["cross_encoder"] | None = "cross_encoder",
    client: LLMClient | None = None,
    asking: Collection[str] | None = None,
    clock: Clock | None = None,
) -> Pipeline:
    """Return a pipeline of all eight stages.

    Args:
        config: limits, switches and the prompt schema; None takes the packaged ones.
        memory: long-term memory; None searches the conversation alone.
        rerank_stage: how the ReRanker orders; ``cross_encoder`` for the model of rule E8, None to keep the order of
            Retrieval.
        client: client of the language model; without one each stage follows its documented rule.
        asking: names of the stages that ask the language model; None for all.
        clock: clock for the stages' milliseconds.

    Raises:
        ConfigError: if a configuration is malformed or of the wrong kind.
        MissingExtraError: if the cross-encoder needs a package that is not installed.

    Examples:
        >>> from ragtune.superprompt.pipeline import build_pipeline
        >>> list(build_pipeline(rerank_stage=None).stages)[:2]
        ['A0_PreProcessing', 'A2_PromptShaper']
    """
    config = config or PipelineConfig.load()
    folder = None if config.agents is None else config.agents.expanduser()
    if folder is not None and not folder.is_dir():
        raise ConfigError(f"agents folder {str(folder)!r}: there is no such folder")

    def agent(kind: type[AgentT], settings: AgentConfig) -> AgentT | None:
        is_asked = asking is None or settings.agent_name in asking
        return None if client is None or not is_asked else kind(settings, client)

    headers = for_keys(agent_config(A0PreProcessing.name, ChooserConfig, folder), config.prompt_schema)
    shaper = agent_config(A2PromptShaper.name, ShaperConfig, folder)
    gate = agent_config(A3NLIGate.name, GateConfig, folder)
    condenser = agent_config(A4Condenser.name, CondenserConfig, folder)
    enforcer = agent_config(A5FormatEnforcer.name, EnforcerConfig, folder)
    stages = [
        A0PreProcessing(agent(Chooser, headers)),
        A2PromptShaper(shaper, agent(Chooser, shaper), config.a2_passes),
        Retrieval(DocumentMemory() if memory is None else memory),
        ReRanker(TopRerankStage.cross_encoder() if isinstance(rerank_stage, str) else rerank_stage),
        A3NLIGate(gate, agent(Chooser, gate)),
        A4Condenser(condenser, agent(Writer, condenser)),
        A5FormatEnforcer(enforcer, agent(Extractor, enforcer)),
        PromptBuilder(),
    ]
    return Pipeline(stages, config, clock)


def answer(sp: SuperPrompt, client: LLMClient | None) -> ChatResult:
    """Send the final prompt to a language model, with System_MD as system message; the SuperPrompt stays unchanged."""
    system = blocks([(BLOCKS[0], sp.system_md)])
    if sp.stage != LIFECYCLE[-1] or not sp.system_md or not sp.prompt_ready.startswith(system):
        raise StageError(f"the final prompt is not there yet: run the stages up to {ORDER[-1]}")
    if client is None:
        raise StageError("there is no language model to answer: give one, or take prompt_ready to a model yourself")
    return client.chat([Message("system", system), Message("user", sp.prompt_ready[len(system) :].lstrip("\n"))])
