"""Builds the usual pipeline."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal, TypeVar

from ragtune.core.request.clock import Clock
from ragtune.llm.client import LLMClient
from ragtune.superprompt.agents.agent import AgentFactory, BaseAgent
from ragtune.superprompt.agents.chooser import Chooser, ChooserConfig
from ragtune.superprompt.agents.agent import AgentConfig
from ragtune.superprompt.agents.extractor import Extractor, ExtractorConfig
from ragtune.superprompt.agents.writer import Writer, WriterConfig
from ragtune.superprompt.limits import PipelineConfig
from ragtune.superprompt.memory.base import BaseMemory
from ragtune.superprompt.memory.documents import DocumentMemory
from ragtune.superprompt.pipeline import Pipeline
from ragtune.superprompt.reranking import BaseRerankStage
from ragtune.superprompt.reranking import TopRerankStage
from ragtune.superprompt.stages.a0_preprocessing import A0PreProcessing, for_keys
from ragtune.superprompt.stages.a2_promptshaper import A2PromptShaper
from ragtune.superprompt.stages.a3_nli_gate import A3NLIGate
from ragtune.superprompt.stages.a4_condenser import A4Condenser
from ragtune.superprompt.stages.a5_format_enforcer import A5FormatEnforcer
from ragtune.superprompt.stages.prompt_builder import PromptBuilder
from ragtune.superprompt.stages.reranker import ReRanker
from ragtune.superprompt.stages.retrieval import Retrieval

AgentT = TypeVar("AgentT", bound=BaseAgent[Any])


def build_pipeline(
    config: PipelineConfig | None = None,
    *,
    memory: BaseMemory | None = None,
    rerank_stage: BaseRerankStage | Literal["cross_encoder"] | None = "cross_encoder",
    client: LLMClient | None = None,
    agents: str | Path | None = None,
    a2_passes: int = 1,
    asking: Collection[str] | None = None,
    clock: Clock | None = None,
) -> Pipeline:
    """Return a pipeline of all eight stages.

    Args:
        config: limits, switches and the prompt schema; None takes the packaged ones.
        memory: long-term memory; None searches the conversation alone.
        rerank_stage: how the ReRanker orders; ``cross_encoder`` for the model of rule E8, None to keep the order of
            Retrieval.
        client: client of the language model; without one each stage follows ``config.llm_off``.
        agents: folder of agent configurations that replace the packaged ones.
        a2_passes: 2 lets A2 refine its first answer.
        asking: names of the stages that ask the language model; None for all.
        clock: clock for the stages' milliseconds.

    Raises:
        ConfigError: if a configuration is malformed or of the wrong kind.
        MissingExtraError: if the cross-encoder needs a package that is not installed.
    """
    factory = AgentFactory(agents)

    def agent(kind: type[AgentT], settings: AgentConfig) -> AgentT | None:
        is_asked = asking is None or settings.agent_name in asking
        return None if client is None or not is_asked else kind(settings, client)

    config = config or PipelineConfig.load()
    headers = for_keys(factory.config(A0PreProcessing.name, ChooserConfig), config.prompt_schema)
    shaper = factory.config(A2PromptShaper.name, ChooserConfig)
    gate = factory.config(A3NLIGate.name, ChooserConfig)
    condenser = factory.config(A4Condenser.name, WriterConfig)
    enforcer = factory.config(A5FormatEnforcer.name, ExtractorConfig)
    stages = [
        A0PreProcessing(agent(Chooser, headers)),
        A2PromptShaper(shaper, agent(Chooser, shaper), a2_passes),
        Retrieval(DocumentMemory() if memory is None else memory),
        ReRanker(TopRerankStage.cross_encoder() if isinstance(rerank_stage, str) else rerank_stage),
        A3NLIGate(gate, agent(Chooser, gate)),
        A4Condenser(condenser, agent(Writer, condenser)),
        A5FormatEnforcer(enforcer, agent(Extractor, enforcer)),
        PromptBuilder(),
    ]
    return Pipeline(stages, config, clock)
