import json
from typing import Any

import pytest
from llm_server import Chat
from superprompt_agents import SHAPED, advance, agent_client, agent_pipeline

from ragtune.superprompt import SuperPrompt
from ragtune.superprompt.agents.agent import agent_config
from ragtune.superprompt.memory.documents import DocumentMemory
from ragtune.superprompt.stages.a2_promptshaper import FIELDS, ShaperConfig

TASK = "Task: explain why bread is gummy\nContext: it was cut hot\nPurpose: a better loaf"
PACKAGED = agent_config("A2_PromptShaper", ShaperConfig)


def shaped(client: Any = None, text: str = TASK, **options: Any) -> SuperPrompt:
    return advance(agent_pipeline(DocumentMemory(), client, **options), SuperPrompt.raw(text), "a2")


def fields(sp: SuperPrompt) -> dict[str, str]:
    return {name: sp.body[name] for name in FIELDS}


def test_one_call_chooses_the_five_fields(llm_server: Any) -> None:
    sp = shaped(agent_client(llm_server))
    assert fields(sp) == {
        "system": PACKAGED.fields["system"].texts["teacher"],
        "audience": "beginner", "tone": "friendly", "depth": "brief", "confidence": "high",
    }  # fmt: skip
    [asked] = llm_server.requests
    assert set(Chat(asked.body).fenced) == {"task", "context", "purpose", "raw_prompt"}
    assert {entry["by"] for entry in sp.extras["a2_decisions"]["fields"].values()} == {"agent"}
    assert (sp.stage, sp.history_of_stages) == ("a2", ["preprocessed", "a2"])
    assert (sp.base_context_chunks, sp.views_by_stage, sp.final_selection_ids) == ([], {}, [])
    assert "## Tone\nfriendly" in sp.prompt_ready


def test_what_is_outside_the_enums_is_clamped_and_logged(llm_server: Any) -> None:
    client = agent_client(llm_server)
    llm_server.answer(json.dumps({"system": "wizard", "audience": "Expert ", "tone": 7, "depth": None}))
    sp = shaped(client)
    assert fields(sp) == fields(shaped()) | {"audience": "expert"}
    log = sp.extras["a2_decisions"]["passes"][0]
    assert [log[name]["reason"] for name in FIELDS] == ["clamped", "agent", "clamped", "missing", "missing"]
    assert [log[name]["said"] for name in FIELDS] == ["wizard", "Expert ", "7", None, None]
    assert sp.extras["a2_decisions"]["fields"]["tone"] == {"text": "neutral", "by": "default"}


USERS = TASK + "\nTone: like a pirate\nAudience: EXPERT\nSystem: Analyst"


@pytest.mark.parametrize("with_model", [True, False])
def test_what_the_user_wrote_stands_and_what_is_allowed_is_put_into_its_usual_form(
    llm_server: Any, with_model: bool
) -> None:
    sp = shaped(agent_client(llm_server) if with_model else None, USERS)
    assert sp.body["tone"] == "like a pirate"
    assert sp.body["audience"] == "expert"
    assert sp.body["system"] == PACKAGED.fields["system"].texts["analyst"]
    assert sp.body["depth"] == ("brief" if with_model else "standard")
    written = sp.extras["a2_decisions"]["fields"]
    assert [written[name]["by"] for name in ("tone", "audience", "system")] == ["user"] * 3
    if with_model:
        assert sp.extras["a2_decisions"]["passes"][0]["tone"]["value"] == "friendly"


def test_pass_two_asks_the_same_agent_with_the_earlier_answer_in_the_input(llm_server: Any) -> None:
    client = agent_client(llm_server)
    refined = {**SHAPED, "tone": "formal"}
    llm_server.answer(json.dumps(refined), when=lambda chat: "earlier_answer" in chat.fenced)
    sp = shaped(client, a2_passes=2)
    assert sp.body["tone"] == "formal"
    first, second = llm_server.requests
    assert first.body["messages"][0] == second.body["messages"][0]
    assert "tone: friendly" in second.body["messages"][1]["content"]
    assert [log["tone"]["value"] for log in sp.extras["a2_decisions"]["passes"]] == ["friendly", "formal"]
    assert sp.history_of_stages == ["preprocessed", "a2"]
    assert sp.extras["costs"][-1]["charged"]["calls"] == 2
