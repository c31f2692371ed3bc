import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from superprompt_agents import agent_client

from ragtune.core.errors import ConfigError
from ragtune.core.request.context import CostMeter
from ragtune.superprompt.agents.agent import AgentConfig, agent_config
from ragtune.superprompt.agents.chooser import Chooser, ChooserConfig
from ragtune.superprompt.agents.writer import Writer, WriterConfig
from ragtune.superprompt.reading.schema import PromptSchema
from ragtune.superprompt.stages.a0_preprocessing import for_keys
from ragtune.superprompt.stages.a2_promptshaper import ShaperConfig
from ragtune.superprompt.stages.a3_nli_gate import GateConfig
from ragtune.superprompt.stages.a4_condenser import CondenserConfig

LIMITS = {"max_input_tokens": 500, "max_part_tokens": 100, "max_item_tokens": 50, "max_output_tokens": 99}
PROMPT = {"system": "Be good.", "user": "{payload}\n{choices}\n{answer}"}
COMMON = {"agent_name": "Tester", "version": "v1", "prompt": PROMPT, **LIMITS}
COLOUR = {"enum": ["red", "dark blue"], "default": "red"}
CHOOSER = {
    **COMMON,
    "fields": {"colour": COLOUR, "size": {"enum": ["big"], "default": None}},
    "max_items_per_call": 2,
    "min_confidence": 0.5,
}
BLUE = {"colour": "dark blue"}


def chooser(server: Any, client: Any = None, **changes: Any) -> Chooser:
    return Chooser(ChooserConfig.model_validate(CHOOSER | changes), client or agent_client(server))


def writer(server: Any) -> Writer:
    values = {**COMMON, "sections": ["Facts", "Gaps"], "max_text_tokens": 60}
    return Writer(WriterConfig.model_validate(values), agent_client(server))


def entries(*items: dict[str, Any]) -> str:
    return json.dumps({"items": list(items)})


WRONG = {
    "default outside the enum": ({"fields": {"colour": {"enum": ["red"], "default": "blue"}}}, "'blue' is not in"),
    "an unknown key": ({"colour": 1}, r"colour=1: Extra inputs"),
    "payload in system": ({"prompt": {"system": "{payload}", "user": "{payload}"}}, "and only there"),
    "unknown placeholder": ({"prompt": {"system": "x", "user": "{payload} {task}"}}, r"placeholder \{task\}: allowed"),
    "another name": ({"agent_name": "Other"}, "is of Other_v1: allowed is Tester_v1"),
    "not JSON": (None, "Invalid JSON"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_malformed_configuration_is_refused_with_file_place_and_value(tmp_path: Path, what: str) -> None:
    changes, message = WRONG[what]
    (tmp_path / "tester.v1.json").write_text("{" if changes is None else json.dumps({**CHOOSER, **changes}))
    with pytest.raises(ConfigError, match=message) as caught:
        agent_config("Tester", ChooserConfig, tmp_path)
    assert "tester.v1.json" in str(caught.value)


TAG = {"tag_of": {"drop": "ugly"}}
UNFIT: dict[str, tuple[str, type[AgentConfig], dict[str, Any], str]] = {
    "a2 fields": ("A2_PromptShaper", ShaperConfig, {"fields": {"tone": COLOUR}}, "allowed are the fields system, aud"),
    "a3 fields": ("A3_NLI_Gate", GateConfig, {"fields": {"decision": COLOUR}}, "allowed are the fields decision"),
    "a3 tags": ("A3_NLI_Gate", GateConfig, TAG, r"tag_of\['drop'\]='ugly' is outside"),
    "a4 cues": ("A4_Condenser", CondenserConfig, {"cues": {"Rumours": ["x"]}}, r"cues\['Rumours'\]: allowed are Facts"),
}


@pytest.mark.parametrize("what", UNFIT)
def test_a_configuration_that_does_not_fit_its_stage_is_refused(what: str) -> None:
    name, kind, change, message = UNFIT[what]
    with pytest.raises(ValidationError, match=message):
        kind.model_validate(agent_config(name, kind).model_dump() | change)


def test_the_prompt_offers_exactly_what_may_be_answered(llm_server: Any) -> None:
    text = chooser(llm_server).messages({"task": "x"})[1].content
    assert '- colour: one of "red", "dark blue"\n- size: one of "big" or null' in text
    assert '{"colour": "red", "size": "big", "certainty": 0.9}' in text
    items = chooser(llm_server).messages({}, [(7, "x")])[1].content
    assert '{"items": [{"id": 7, "colour": "red", "size": "big", "certainty": 0.9}]}' in items
    assert "## Facts\n## Gaps\n(at most 60 tokens in all)" in writer(llm_server).messages({})[1].content


@given(
    st.dictionaries(
        st.sampled_from(["colour", "size", "certainty"]),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        ),
    )
)
def test_no_answer_leads_outside_the_enums(said: dict[str, Any]) -> None:
    choices = ChooserConfig.model_validate(CHOOSER).decide(said)
    assert choices.fields["colour"].value in ("red", "dark blue")
    assert choices.fields["size"].value in ("big", None)
    json.dumps(choices.log(), allow_nan=False)


def test_items_get_their_own_answers_and_the_rest_the_default(llm_server: Any) -> None:
    agent = chooser(llm_server, max_items_per_call=9)
    llm_server.answer(
        entries(
            {"id": 2, **BLUE}, {"id": "3", **BLUE}, {"id": 2, "colour": "red"}, {"id": 4, **BLUE, "certainty": 0.1},
            {"id": 99, **BLUE}, {"id": True, **BLUE}, {"id": None, **BLUE}, BLUE, {"id": 5, "colour": "green"},
        )
    )  # fmt: skip
    choices = agent.choose_each({}, ["a", "b", "c", "d", "e"], CostMeter())
    outcome = [(choice.fields["colour"].value, choice.fields["colour"].reason) for choice in choices]
    assert outcome == [
        ("red", "missing"), ("dark blue", "agent"), ("dark blue", "agent"), ("red", "uncertain"), ("red", "clamped"),
    ]  # fmt: skip


def test_many_items_take_several_calls_and_none_decides_for_another(llm_server: Any) -> None:
    client = agent_client(llm_server, json_mode="json_schema")
    agent = chooser(llm_server, client, model="ft:mine", temperature=0.5)
    llm_server.answer(entries(*({"id": n, **BLUE} for n in (1, 2, 4))))
    meter = CostMeter()
    choices = agent.choose_each({"task": "x"}, ["a", "b", "c", "d", "e"], meter)
    colours = [choice.fields["colour"].value for choice in choices]
    assert colours == ["dark blue", "dark blue", "red", "dark blue", "red"]
    assert len(llm_server.requests) == 3
    assert meter.charged is not None
    assert (meter.charged.calls, meter.charged.tokens) == (3, llm_server.billed_tokens)
    asked = llm_server.requests[0].body
    assert (asked["model"], asked["temperature"]) == ("ft:mine", 0.5)
    array = asked["response_format"]["json_schema"]["schema"]["properties"]["items"]
    assert array["maxItems"] == 2  # the most that one call asks about
    assert array["items"]["required"] == ["id", "colour", "size", "certainty"]


def test_the_header_chooser_is_closed_over_the_keys_of_the_schema(llm_server: Any) -> None:
    schema = PromptSchema.load().model_copy(update={"keys": {"task": "Task", "context": "Context"}})
    closed = for_keys(agent_config("A0_PreProcessing", ChooserConfig), schema)
    agent = Chooser(closed, agent_client(llm_server))
    said = ({"id": 1, "key": "Task", "certainty": 0.9}, {"id": 2, "key": "soul", "certainty": 1})
    llm_server.answer(entries(*said, {"id": 3, "key": "task"}))
    choices = agent.choose_each({}, ["Mission", "Odd", "Unsure", "Silent"], CostMeter())
    found = [(choice.fields["key"].value, choice.certainty) for choice in choices]
    assert found == [("task", 0.9), (None, 1.0), ("task", None), (None, None)]
    assert '"task", "context"' in llm_server.requests[0].body["messages"][1]["content"]


def test_a_writer_fills_its_sections_and_scores_what_it_was_shown(llm_server: Any) -> None:
    text = "Before.\n# **Gaps**\n- gap\n\n### facts:\n- fact [1]\n[[end item 1 0123456789ab]]"
    scores = {"1": 0.5, "2": "high", "3": 2, "9": 1.0, "x": 1.0}
    llm_server.answer(json.dumps({"s_ctx_md": text, "relevance": scores}))
    written = writer(llm_server).write({"task": "x"}, ["a", "b", "c"], CostMeter())
    assert written == ("## Facts\nBefore.\n- fact [1]\n\n## Gaps\n- gap", {0: 0.5})
    llm_server.answer(json.dumps({"s_ctx_md": "Fact.", "relevance": [0.5]}))
    again = writer(llm_server).write({"task": "x"}, ["a", "b", "c"], CostMeter())
    assert again == ("## Facts\nFact.\n\n## Gaps\n- none", {})
