"""Every stage with an agent against every unusable answer: the documented default."""

from __future__ import annotations

from typing import Any

import pytest
from superprompt_agents import advance, agent_client, agent_pipeline

from ragtune.superprompt import PipelineConfig, SuperPrompt
from ragtune.superprompt.memory.documents import DocumentMemory
from ragtune.superprompt.stages.base import FailedStageError

STAGES = {
    "A2_PromptShaper": "preprocessed",
    "A3_NLI_Gate": "reranked",
    "A4_Condenser": "a3",
    "A5_Format_Enforcer": "a4",
}
OUTCOME = {"body", "views_by_stage", "final_selection_ids", "s_ctx_md", "stage", "prompt_ready"}
UNUSABLE = {
    "server_error",
    "garbage",
    "cut_off",
    "malformed_json",
}


def settings(llm_failure: str) -> PipelineConfig:
    return PipelineConfig.load().model_copy(update={"llm_failure": llm_failure})


@pytest.fixture
def start(memory: DocumentMemory, raw: SuperPrompt) -> dict[str, SuperPrompt]:
    pipeline = agent_pipeline(memory)
    return {name: advance(pipeline, raw, stage) for name, stage in STAGES.items()}


@pytest.mark.parametrize("fault", sorted(UNUSABLE))
@pytest.mark.parametrize("name", STAGES)
def test_where_failures_give_way_the_outcome_is_exactly_the_default(
    llm_server: Any, memory: DocumentMemory, start: dict[str, SuperPrompt], name: str, fault: str
) -> None:
    pipeline = agent_pipeline(memory, agent_client(llm_server), settings("default"))
    llm_server.fail_randomly(1.0, kinds=[fault])
    done = pipeline.run_stage(name, start[name])
    off = agent_pipeline(memory).run_stage(name, start[name])
    assert done.model_dump(include=OUTCOME) == off.model_dump(include=OUTCOME)
    assert done.extras["llm"][name]["reason"] == "llm_failure"
    assert done.extras["llm"][name]["error"]
    assert done.extras["costs"][-1]["charged"]["tokens"] == llm_server.billed_tokens


def test_an_incomplete_record_is_an_error_that_no_default_hides(
    llm_server: Any, tmp_path: Any, memory: DocumentMemory, start: dict[str, SuperPrompt]
) -> None:
    client = agent_client(llm_server, mode="replay", cache_dir=tmp_path)
    with pytest.raises(FailedStageError, match=r"holds no answer of 'test' .* run it once with mode=record"):
        agent_pipeline(memory, client, settings("default")).run_stage("A2_PromptShaper", start["A2_PromptShaper"])
    assert llm_server.requests == []
