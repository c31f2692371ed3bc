"""A pipeline small enough to know by heart: four documents, two turns, and the simplest stages where agents belong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import pytest

from ragtune.core.request.clock import VirtualClock
from ragtune.core.request.context import CostMeter
from ragtune.superprompt import Pipeline, PipelineConfig, SuperPrompt, Turn
from ragtune.superprompt.memory.base import BaseMemory
from ragtune.superprompt.memory.documents import DocumentMemory
from ragtune.superprompt.reranking import BaseRerankStage
from ragtune.superprompt.stages.a0_preprocessing import A0PreProcessing
from ragtune.superprompt.stages.base import AgentStage
from ragtune.superprompt.stages.base import BaseStage, next_stage
from ragtune.superprompt.stages.prompt_builder import PromptBuilder
from ragtune.superprompt.stages.reranker import ReRanker
from ragtune.superprompt.stages.retrieval import Retrieval

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


class FixedAgent(AgentStage[Callable[..., Any], Any]):
    """An agent stage whose answer is ``"agent"`` or ``"default"``, or what ``act`` makes of it."""

    def ask(self, agent: Callable[..., Any], sp: SuperPrompt, config: PipelineConfig, meter: CostMeter) -> Any:
        return agent(meter)

    def default(self, sp: SuperPrompt, config: PipelineConfig) -> Any:
        return "default"

    def write(self, sp: SuperPrompt, config: PipelineConfig, answer: Any) -> None:
        self.act(sp, config, answer)

    def act(self, sp: SuperPrompt, config: PipelineConfig, answer: Any) -> None:
        raise NotImplementedError


class Shaper(FixedAgent):
    name: ClassVar[str] = "A2_PromptShaper"
    writes: ClassVar = frozenset({"body", "prompt_ready"})

    def act(self, sp: SuperPrompt, config: PipelineConfig, answer: Any) -> None:
        sp.body["tone"] = answer


class Gate(FixedAgent):
    name: ClassVar[str] = "A3_NLI_Gate"
    writes: ClassVar = frozenset({"views_by_stage", "final_selection_ids"})

    def act(self, sp: SuperPrompt, config: PipelineConfig, answer: Any) -> None:
        sp.views_by_stage["a3"] = list(sp.views_by_stage["reranked"])
        sp.final_selection_ids = list(sp.views_by_stage["a3"])


class Condenser(FixedAgent):
    name: ClassVar[str] = "A4_Condenser"
    writes: ClassVar = frozenset({"views_by_stage", "final_selection_ids", "s_ctx_md", "prompt_ready"})

    def act(self, sp: SuperPrompt, config: PipelineConfig, answer: Any) -> None:
        sp.final_selection_ids = sp.final_selection_ids[: config.limits.n3_final_selection_max]
        sp.views_by_stage["a4"] = list(sp.final_selection_ids)
        sp.s_ctx_md = "\n".join(f"- {chunk.snippet}" for chunk in sp.chunks(sp.final_selection_ids))


class Enforcer(FixedAgent):
    name: ClassVar[str] = "A5_Format_Enforcer"
    writes: ClassVar = frozenset({"body", "prompt_ready"})

    def act(self, sp: SuperPrompt, config: PipelineConfig, answer: Any) -> None:
        sp.extras["format_enforcer"] = {"normalized_format_spec": sp.body["format"], "hard_rules": ["Answer briefly."]}


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
        agent: Any = None,
    ) -> Pipeline:
        agents = [Shaper(agent), Gate(agent), Condenser(agent), Enforcer(agent)]
        stages = [A0PreProcessing(), agents[0], Retrieval(memory), ReRanker(rerank_stage), *agents[1:], PromptBuilder()]
        replaced = [(replace or {}).get(stage.name, stage) for stage in stages]
        return Pipeline(replaced, config, VirtualClock())

    return make


@pytest.fixture
def raw() -> SuperPrompt:
    return SuperPrompt.raw(PROMPT, TURNS)


@pytest.fixture
def reach(make_pipeline: Make, raw: SuperPrompt) -> Callable[..., SuperPrompt]:
    """``reach("a3")`` is the usual prompt at that stage; ``text=`` asks another one."""

    def run(stage: str, pipeline: Pipeline | None = None, text: str | None = None) -> SuperPrompt:
        pipeline = pipeline or make_pipeline()
        sp = raw if text is None else raw.with_user_text(text)
        while sp.stage != stage:
            sp = pipeline.run_stage(next_stage(sp), sp)
        return sp

    return run
