"""Every stage with an agent against unusable answers: a failure with its costs, or the documented default."""

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
LENIENT = PipelineConfig.load().model_copy(update={"llm_failure": "default"})


@pytest.mark.parametrize("fault", ["server_error", "malformed_json"])
@pytest.mark.parametrize("name", STAGES)
def test_where_failures_give_way_the_outcome_is_exactly_the_default(
    llm_server: Any, memory: DocumentMemory, raw: SuperPrompt, name: str, fault: str
) -> None:
    start = advance(agent_pipeline(memory), raw, STAGES[name])
    client = agent_client(llm_server)
    llm_server.fail_randomly(1.0, kinds=[fault])
    done = agent_pipeline(memory, client, LENIENT).run_stage(name, start)
    off = agent_pipeline(memory).run_stage(name, start)
    assert done.model_dump(include=OUTCOME) == off.model_dump(include=OUTCOME)
    assert done.extras["llm"][name]["reason"] == "llm_failure"
    assert done.extras["costs"][-1]["charged"]["tokens"] == llm_server.billed_tokens
    with pytest.raises(FailedStageError) as caught:
        agent_pipeline(memory, client).run_stage(name, start)
    assert caught.value.cost.calls == 1


def test_an_incomplete_record_is_an_error_that_no_default_hides(
    llm_server: Any, tmp_path: Any, memory: DocumentMemory, raw: SuperPrompt
) -> None:
    client = agent_client(llm_server, mode="replay", cache_dir=tmp_path)
    pipeline = agent_pipeline(memory, client, LENIENT)
    with pytest.raises(FailedStageError, match=r"holds no answer of 'test' .* run it once with mode=record"):
        pipeline.run_all(raw)
    assert llm_server.requests == []
