# ruff: noqa: RUF001 - letters that look like others are what is tested
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from llm_server import Chat
from pydantic import ValidationError
from superprompt_agents import agent_client, agent_pipeline, asked_by, semantic

from ragtune.core.errors import StageError
from ragtune.superprompt import PipelineConfig, SuperPrompt
from ragtune.superprompt.memory.documents import DocumentMemory
from ragtune.superprompt.reading.schema import PromptSchema
from ragtune.superprompt.stages.a0_preprocessing import A0PreProcessing

CONFIG = PipelineConfig.load()


def prepared(text: str, config: PipelineConfig = CONFIG) -> SuperPrompt:
    return A0PreProcessing()(SuperPrompt.raw(text), config)


def parts(text: str) -> dict[str, str]:
    """The body without what is filled in."""
    sp = prepared(text)
    return {key: value for key, value in sp.body.items() if key not in sp.extras["defaults_used"] and value}


@pytest.mark.parametrize(
    "text",
    [
        "###### Task ##\n\nsing",
        "## Task: sing",
        "   Task: sing",
        "Task：sing",
        "[TASK]\nsing",
        "[Task]: sing",
        "**Task:** sing",
        "__Task__\nsing",
        "Your task is: sing",
        "Deine Aufgabe ist es sing",
        "# Aufgabe\r\nsing",
        "\ufeff# Task\u2028sing",
    ],
)
def test_every_way_to_write_a_header(text: str) -> None:
    assert parts(text) == {"task": "sing"}


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("sing\n\nTone: happy", {"task": "sing", "tone": "happy"}),
        ("hello\n\nTask: sing\n\n# Context\nnight", {"task": "sing", "context": "hello\n\nnight"}),
        ("Task: a\n# Tone\nsad\n# Aufgabe\nb", {"task": "a\n\nb", "tone": "sad"}),
        ("## Context\n### Monday\nrain\n## Task\nsing", {"context": "### Monday\nrain", "task": "sing"}),
        ("Task: explain\n~~~~\n# Tone\nFormat: x\n~~~~", {"task": "explain\n~~~~\n# Tone\nFormat: x\n~~~~"}),
        ("Act as a baker and say how", {"task": "Act as a baker and say how"}),
        ("Format: JSON. Task: List teas.", {"format": "JSON.", "task": "List teas."}),
        ("Task: List teas. Note: few. Format: JSON", {"task": "List teas. Note: few.", "format": "JSON"}),
        ("Zielgruppe: Kinder; Aufgabe: Nenne Tees.\n\nKurz.", {"audience": "Kinder;", "task": "Nenne Tees.\n\nKurz."}),
        ("Task: one. Task: two.", {"task": "one. Task: two."}),
        ('Task: What is "E. Format: x" here?', {"task": 'What is "E. Format: x" here?'}),
        ("Task: Fix it. The format: any", {"task": "Fix it. The format: any"}),
    ],
)
def test_text_goes_to_the_part_where_it_belongs(text: str, body: dict[str, str]) -> None:
    assert parts(text) == body


@pytest.mark.parametrize(
    "text",
    [
        "just words",
        "see http://example.org: good",
        "# Odd heading\nwith text",
        "[1] a footnote\n[x](url)",
        "at 10:30 we meet",
        "    Task: indented code",
        "Note: nothing here names a part",
    ],
)
def test_a_text_without_a_known_header_is_the_task_as_it_is(text: str) -> None:
    sp = prepared(text)
    assert sp.body["task"] == text.strip()
    assert sp.body["context"] == ""
    assert sp.extras["unknown_attributes"] == {}
    assert sp.extras["missing"] == ["context"]


@pytest.mark.parametrize("text", ["Context: night", "Task:\nTone: sad", "", "\x00\u202e"])
def test_a_task_is_never_invented(text: str) -> None:
    with pytest.raises(StageError, match=r"a task is never invented: add a line|empty: write what is to be done"):
        prepared(text)


def test_must_keys_get_their_defaults_and_the_log_says_which() -> None:
    sp = prepared("Task: sing\nTone: sad")
    schema = CONFIG.prompt_schema
    assert set(schema.must_keys) <= set(sp.body)
    assert sp.body["audience"] == schema.defaults["audience"]
    assert sp.body["tone"] == "sad"
    assert "tone" not in sp.extras["defaults_used"]
    assert "audience" in sp.extras["defaults_used"]


def test_unknown_headers_go_to_the_extras_and_stay_visible() -> None:
    sp = prepared("# Task\nsing\n\n# Budget\n3 EUR\n\n[VENUE]\nopera")
    assert sp.extras["unknown_attributes"] == {"Budget": "3 EUR", "VENUE": "opera"}
    assert "3 EUR" in sp.prompt_ready
    assert not {"budget", "Budget", "VENUE"} & set(sp.body)
    sp = prepared("Task: sing\nBudget: 3 EUR\nPlace: home\n\nIt is late.\nMind: the cat")
    assert sp.extras["unknown_attributes"] == {"Budget": "3 EUR", "Place": "home\n\nIt is late.\nMind: the cat"}


def test_every_decision_is_logged() -> None:
    sp = prepared("# Taks\nsing\n# Zielgruppe\nall\n# Odd\nx\n# Taks\nloud")
    assert sp.extras["normalized_map"] == {"Taks": "task", "Zielgruppe": "audience", "Odd": None}
    steps = {entry["header"]: (entry["step"], entry["times"]) for entry in sp.extras["decisions"]}
    assert steps == {"Taks": ("typo", 2), "Zielgruppe": ("bilingual", 1), "Odd": ("unknown", 1)}
    assert sp.extras["semantic_used"] == {"enabled": False, "called": False, "asked": [], "choices": {}}


def test_a0_sets_the_stage_and_clears_what_is_downstream(reach: Callable[..., SuperPrompt]) -> None:
    done = reach("a5")
    sp = A0PreProcessing()(done.with_user_text("Task: sing"), CONFIG)
    assert (sp.stage, sp.history_of_stages) == ("preprocessed", [*done.history_of_stages, "preprocessed"])
    assert (sp.base_context_chunks, sp.views_by_stage, sp.final_selection_ids, sp.s_ctx_md) == ([], {}, [], "")
    assert sp.prompt_ready.index("## System") < sp.prompt_ready.index("## Task\nsing")
    assert len(sp.extras["costs"]) == len(done.extras["costs"]) + 1


def chosen(server: Any, text: str, config: PipelineConfig, *choices: tuple[str, float]) -> SuperPrompt:
    items = [{"id": n, "key": key, "certainty": sure} for n, (key, sure) in enumerate(choices, start=1)]
    client = agent_client(server)
    server.answer(json.dumps({"items": items}), asked_by("A0_PreProcessing"))
    return agent_pipeline(DocumentMemory(), client, config).run_stage("A0_PreProcessing", SuperPrompt.raw(text))


def test_the_chooser_maps_what_the_ladder_does_not_know_above_the_threshold(llm_server: Any) -> None:
    text = "# Mission\nsing\n# Crowd\nchildren\n# Tone\nsad"
    sp = chosen(llm_server, text, semantic(CONFIG), ("task", 0.9), ("audience", 0.5), ("text", 1.0))
    assert list(Chat(llm_server.requests[0].body).fenced) == ["header 1", "header 2"]
    assert sp.body["task"] == "sing"
    assert sp.body["tone"] == "sad"
    assert sp.extras["unknown_attributes"] == {"Crowd": "children"}
    used = sp.extras["semantic_used"]
    assert (used["called"], used["asked"], used["accepted"]) == (True, ["Mission", "Crowd"], ["Mission"])
    assert sp.extras["costs"][0]["charged"]["tokens"] == llm_server.billed_tokens
    assert "semantic" in {entry["step"] for entry in sp.extras["decisions"]}
    sent = len(llm_server.requests)
    chosen(llm_server, "Task: x\n# Odd\ny", CONFIG)
    chosen(llm_server, "Task: x", semantic(CONFIG))
    assert len(llm_server.requests) == sent


@pytest.mark.parametrize("line", ["Task: a\n", "K: v\n", "[a", "**", "（：）"])
def test_a_prompt_of_a_megabyte_is_prepared(line: str) -> None:
    text = "Task: begin\n" + line * (1_000_000 // len(line.encode()))
    assert prepared(text).body["task"].startswith("begin")


SCHEMA = PromptSchema.load()


@pytest.mark.parametrize(
    ("header", "key", "step"),
    [
        ("Task", "task", "exact"),
        ("Goal", "purpose", "alias"),
        ("audeince", "audience", "typo"),
        ("constrainte", "constraints", "typo"),
        ("taks", "task", "typo"),
        ("Aufgabe", "task", "bilingual"),
        ("Your Task", "task", "template"),
        ("Deine Aufgabe", "task", "template"),
        ("What is the question at hand", "task", "keyword"),
        ("1. Ｔa\u200bsk", "task", "exact"),
        ("task and audience of this", None, "unknown"),
        *((name, None, "unknown") for name in ("", "Тask", "соntext", "ᴛᴀsᴋ", "formal", "desk")),
    ],
)
def test_each_rung_of_the_ladder(header: str, key: str | None, step: str) -> None:
    mapped = SCHEMA.resolve(header, keywords=True)
    assert (mapped.key, mapped.step) == (key, step)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"must_keys": ["task", "colour"]}, "'colour' is no canonical key"),
        ({"defaults": {**SCHEMA.defaults, "task": "Be nice"}}, "never invented"),
        ({"must_keys": ["purpose"]}, "'purpose' has no default"),
        ({"aliases": {"task": ["job"], "purpose": ["Job"]}}, "'Job' names both"),
        ({"header_templates": ["your task"]}, "one {key}"),
        ({"unheard": 1}, "unheard"),
    ],
)
def test_a_schema_that_contradicts_itself_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        PromptSchema.model_validate(SCHEMA.model_dump() | changes)


GOLDEN = json.loads((Path(__file__).parent / "golden" / "requests.json").read_text(encoding="utf-8"))


def taken_apart(prompt: str) -> dict[str, Any]:
    config = PipelineConfig.load()
    try:
        sp = A0PreProcessing()(SuperPrompt.raw(prompt), config)
    except StageError as error:
        return {"refused": str(error)}
    defaults = sp.extras["defaults_used"]
    body = {key: text for key, text in sp.body.items() if text and key not in defaults}
    return {"body": body, "unknown": sp.extras["unknown_attributes"]}


def test_natural_prompts_are_taken_apart_as_a_person_would() -> None:
    assert (len(GOLDEN), sum(row.get("held_out", False) for row in GOLDEN)) == (144, 30)
    got = [taken_apart(row["prompt"]) for row in GOLDEN]
    wanted = [{"body": row["body"], "unknown": row.get("unknown", {})} for row in GOLDEN]
    wrong = [(row["prompt"], one) for row, one, other in zip(GOLDEN, got, wanted, strict=True) if one != other]
    assert len(wrong) <= 0.05 * len(GOLDEN), wrong
    noted = {row["prompt"] for row in GOLDEN if "noted" in row}
    assert {prompt for prompt, _ in wrong} == noted, wrong
