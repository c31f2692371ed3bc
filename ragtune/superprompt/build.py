"""Builds the usual pipeline."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Literal

from ragtune.core.request.clock import Clock
from ragtune.llm.client import LLMClient
from ragtune.superprompt.agents.chooser import Chooser
from ragtune.superprompt.agents.config import ChooserConfig, ExtractorConfig, WriterConfig
from ragtune.superprompt.agents.extractor import Extractor
from ragtune.superprompt.agents.factory import AgentFactory
from ragtune.superprompt.agents.writer import Writer
from ragtune.superprompt.limits import PipelineConfig
from ragtune.superprompt.memory.base import BaseMemory
from ragtune.superprompt.memory.documents import DocumentMemory
from ragtune.superprompt.pipeline import Pipeline
from ragtune.superprompt.reranking.base import BaseRerankStage
from ragtune.superprompt.reranking.top import TopRerankStage
from ragtune.superprompt.stages.a0_preprocessing import A0PreProcessing
from ragtune.superprompt.stages.a2_promptshaper import A2PromptShaper
from ragtune.superprompt.stages.a3_nli_gate import A3NLIGate
from ragtune.superprompt.stages.a4_condenser import A4Condenser
from ragtune.superprompt.stages.a5_format_enforcer import A5FormatEnforcer
from ragtune.superprompt.stages.prompt_builder import PromptBuilder
from ragtune.superprompt.stages.reranker import ReRanker
from ragtune.superprompt.stages.retrieval import Retrieval


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
    with_model, without = AgentFactory(client, agents), AgentFactory(None, agents)

    def factory(stage: str) -> AgentFactory:
        return with_model if asking is None or stage in asking else without

    headers = without.config(A0PreProcessing.name, ChooserConfig)
    shaper = without.config(A2PromptShaper.name, ChooserConfig)
    gate = without.config(A3NLIGate.name, ChooserConfig)
    condenser = without.config(A4Condenser.name, WriterConfig)
    enforcer = without.config(A5FormatEnforcer.name, ExtractorConfig)
    stages = [
        A0PreProcessing(factory(A0PreProcessing.name).agent(Chooser, headers)),
        A2PromptShaper(shaper, factory(A2PromptShaper.name).agent(Chooser, shaper), a2_passes),
        Retrieval(DocumentMemory() if memory is None else memory),
        ReRanker(TopRerankStage.cross_encoder() if isinstance(rerank_stage, str) else rerank_stage),
        A3NLIGate(gate, factory(A3NLIGate.name).agent(Chooser, gate)),
        A4Condenser(condenser, factory(A4Condenser.name).agent(Writer, condenser)),
        A5FormatEnforcer(enforcer, factory(A5FormatEnforcer.name).agent(Extractor, enforcer)),
        PromptBuilder(),
    ]
    return Pipeline(stages, config, clock)
