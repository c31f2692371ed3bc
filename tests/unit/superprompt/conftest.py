"""A pipeline small enough to know by heart: four documents, two turns, no language model, no reranker."""

from collections.abc import Callable, Mapping

import pytest
from superprompt_agents import advance, agent_pipeline

from ragtune.core.request.clock import VirtualClock
from ragtune.superprompt import Pipeline, PipelineConfig, SuperPrompt, Turn
from ragtune.superprompt.memory.documents import BaseMemory, DocumentMemory
from ragtune.superprompt.stages.base import BaseStage
from ragtune.superprompt.stages.reranker import BaseRerankStage

DOCUMENTS = {
    "bread.md": "# Bread\n\nSourdough needs a lively starter and a long rise.\n\n"
    "## Crumb\n\nA gummy crumb means it was cut hot.",
    "ships.txt": "A ship at anchor swings with wind and tide. Rope stretches before it breaks.",
    "tea.md": "# Tea\n\nGreen tea is steeped in water below the boil.",
    "stars.txt": "A star twinkles because the air is restless.",
}
PROMPT = "## Task\nExplain why my sourdough crumb is gummy.\n\n## Context\nThe starter was lively.\n\n## Format\nA list"
TURNS = (
    Turn(role="user", content="My sourdough starter is called Bob."),
    Turn(role="assistant", content="A lively starter doubles within six hours."),
)

Make = Callable[..., Pipeline]


@pytest.fixture
def config() -> PipelineConfig:
    return PipelineConfig.load()


@pytest.fixture
def memory(config: PipelineConfig) -> DocumentMemory:
    return DocumentMemory.from_texts(DOCUMENTS, config.chunking)


@pytest.fixture
def make_pipeline(memory: DocumentMemory) -> Make:
    def make(
        config: PipelineConfig | None = None,
        memory: BaseMemory = memory,
        rerank_stage: BaseRerankStage | None = None,
        replace: Mapping[str, BaseStage] | None = None,
    ) -> Pipeline:
        usual = agent_pipeline(memory, config=config, rerank_stage=rerank_stage)
        return Pipeline([*(usual.stages | (replace or {})).values()], config, VirtualClock())

    return make


@pytest.fixture
def raw() -> SuperPrompt:
    return SuperPrompt.raw(PROMPT, TURNS)


@pytest.fixture
def reach(make_pipeline: Make, raw: SuperPrompt) -> Callable[..., SuperPrompt]:
    """``reach("a3")`` is the usual prompt at that stage; ``text=`` asks another one."""

    def run(stage: str, pipeline: Pipeline | None = None, text: str | None = None) -> SuperPrompt:
        return advance(pipeline or make_pipeline(), raw if text is None else raw.with_user_text(text), stage)

    return run
