import json
from typing import Any

import pytest
from llm_server import Chat
from superprompt_agents import advance, agent_client, agent_pipeline, asked_by

from ragtune.core.errors import StageError
from ragtune.core.tokens import count_tokens
from ragtune.superprompt import SuperPrompt
from ragtune.superprompt.agents.agent import agent_config
from ragtune.superprompt.memory.documents import DocumentMemory
from ragtune.superprompt.stages.a5_format_enforcer import KEYS, EnforcerConfig

PACKAGED = agent_config("A5_Format_Enforcer", EnforcerConfig)
MEMORY = DocumentMemory()
RULES = (
    "## Task\nName three breads\n\n## Format\n{format}\n\n## Constraints\nNo rye\n\n## Rules\nBe true.\n\nBe kind.\n"
)


def enforced(client: Any = None, form: str = "json, please", text: str = RULES, stage: str = "a5") -> SuperPrompt:
    return advance(agent_pipeline(MEMORY, client), SuperPrompt.raw(text.replace("{format}", form)), stage)


def test_the_agents_format_is_written_with_the_prompts_own_rules_first(llm_server: Any) -> None:
    sp = enforced(agent_client(llm_server))
    assert sp.extras["format_enforcer"] == {
        "normalized_format_spec": "Exactly this: json, please",
        "example_shape": "- item",
        "hard_rules": ["Be true.", "Be kind.", "Keep to the format."],
    }
    assert sp.body["format"] == "Exactly this: json, please"
    assert sp.extras["a5_decisions"]["format_before"] == "json, please"
    assert "## Format\nExactly this" in sp.prompt_ready
    assert (sp.stage, sp.history_of_stages[-1]) == ("a5", "a5")
    asked = Chat(llm_server.requests[-1].body).fenced
    assert set(asked) == {"system", "prompt", "format", "constraints", "deterministic_rules"}
    before = enforced(agent_client(llm_server), stage="a4")
    for field in ("base_context_chunks", "views_by_stage", "final_selection_ids", "s_ctx_md"):
        assert getattr(before, field) == getattr(sp, field)
    assert {key for key in sp.body if sp.body[key] != before.body[key]} == {"format"}


RECIPES = {
    "json": ("JSON", "A single JSON value, and nothing else."),
    "JSON with keys a, b": ("JSON", "A single JSON value, and nothing else. As requested: JSON with keys a, b"),
    "Tabelle mit zwei Spalten": ("table", "A Markdown table. As requested: Tabelle mit zwei Spalten"),
    "step-by-step": ("numbered list", "A numbered Markdown list."),
    "a Python script": ("Python code", "Python code in one fenced code block. As requested: a Python script"),
    "a haiku": (None, "a haiku"),
    "listless jsonish prosetry": (None, "listless jsonish prosetry"),
}


@pytest.mark.parametrize("form", RECIPES)
def test_without_a_language_model_common_formats_are_normalised(form: str) -> None:
    sp = enforced(form=form)
    recipe, spec = RECIPES[form]
    made = sp.extras["format_enforcer"]
    assert (sp.extras["a5_decisions"]["recipe"], made["normalized_format_spec"]) == (recipe, spec)
    assert sp.body["format"] == spec
    assert tuple(made) == KEYS
    assert made["hard_rules"][:2] == ["Be true.", "Be kind."]
    assert len(made["hard_rules"]) > 2


AN_ANSWER = {"normalized_format_spec": "a list", "example_shape": "", "hard_rules": []}


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"normalized_format_spec": "so many words " * 200}, None),
        ({"example_shape": {"a": [1]}}, {"example_shape": '{\n  "a": [\n    1\n  ]\n}'}),
        ({"hard_rules": "one\n\ntwo"}, {"hard_rules": ["one", "two"]}),
        ({"hard_rules": None, "more": 1}, {"hard_rules": []}),
    ],
)
def test_an_extractor_fills_its_keys_within_their_limits(llm_server: Any, change: Any, found: Any) -> None:
    client = agent_client(llm_server)
    llm_server.answer(json.dumps(AN_ANSWER | change), asked_by("A5_Format_Enforcer"))
    made = enforced(client, text="Name three breads").extras["format_enforcer"]
    assert count_tokens(made["normalized_format_spec"]) <= PACKAGED.max_spec_tokens
    assert found is None or made | found == made


@pytest.mark.parametrize("change", [{"normalized_format_spec": " "}, {"hard_rules": [1]}])
def test_an_extraction_without_what_is_required_is_none(llm_server: Any, change: Any) -> None:
    client = agent_client(llm_server)
    llm_server.answer(json.dumps(AN_ANSWER | change), asked_by("A5_Format_Enforcer"))
    with pytest.raises(StageError, match="A5_Format_Enforcer failed: AnswerError"):
        enforced(client)


@pytest.mark.parametrize(
    ("task", "recipe"),
    [
        ("List the planets in a JSON array.", "JSON"),
        ("How do I fix a flat tire? Give me numbered steps.", "numbered list"),
        ("Don't use bullet points. Explain in plain text.", "plain text"),
        ("How do I store dates in JSON?", "Markdown"),
        ("Format: CSV\nTask: List the planets in a JSON array.", "CSV"),
        ("Turn this table into prose:\n\n| a | b |\n|---|---|", "plain text"),
        ("Make this table shorter", "Markdown"),
        ("Return the result in the following JSON format: {}", "JSON"),
        ("Convert YAML into JSON and explain the difference", "Markdown"),
        ("Explain this error:\n\nValueError: could not decode it as JSON.", "Markdown"),
        ("How do I create a table in PostgreSQL?", "Markdown"),
        ("Can the client write CSV files?", "Markdown"),
        ("Write a function that returns a list of numbers.", "Markdown"),
        ("Explain how lists work in Python.", "Markdown"),
        ("Explain lists, with an example in Python.", "Python code"),
        ("Show me how to use JSON in Django", "Markdown"),
        ("Explain in three bullet points how the cache works.", "bullet list"),
        ("Kannst du mir die Befehle als JSON-Array ausgeben?", "JSON"),
        ("Schreibe eine kurze E-Mail an mein Team.", "e-mail"),
        ("Vergleiche die Speicher in einer Tabelle mit den Spalten Speicher und Preis.", "table"),
        ("Was ist ein Pool? Bitte in genau 3 Stichpunkten antworten.", "bullet list"),
        ("Gib mir nur den Code, um zu suchen.", "code"),
        ("Output JSON lines with the keys name and help.", "JSON lines"),
        ("Give me a comma-separated list of the planets.", "comma-separated items"),
    ],
)
def test_the_task_may_name_the_format_where_no_header_does(task: str, recipe: str) -> None:
    sp = advance(agent_pipeline(DocumentMemory()), SuperPrompt.raw(task), "a5")
    assert sp.extras["a5_decisions"]["recipe"] == recipe
    assert ("Write valid Markdown." in sp.extras["format_enforcer"]["hard_rules"]) == (recipe == "Markdown")


@pytest.mark.parametrize(
    ("task", "shape"),
    [
        ("List the planets as JSON objects; each object should have `name` and `size`.", ["name", "size"]),
        ("Give me an array of objects (id, name) for the planets", [["id", "name"]] * 2),
        ("Return JSON with the keys a and b and nothing else.", ["a", "b"]),
        ('Return a JSON object like {"planet": "...", "moons": []}.', ["planet", "moons"]),
    ],
)
def test_the_example_has_the_keys_of_the_request(task: str, shape: list[Any]) -> None:
    sp = advance(agent_pipeline(DocumentMemory()), SuperPrompt.raw(task), "a5")
    example = json.loads(sp.extras["format_enforcer"]["example_shape"])
    assert ([list(item) for item in example] if isinstance(example, list) else list(example)) == shape


def test_a_separator_and_long_column_names_are_those_of_the_request() -> None:
    task = "Export the planets as a semicolon-separated CSV file with header row name;when to see."
    sp = advance(agent_pipeline(DocumentMemory()), SuperPrompt.raw(task), "a5")
    assert sp.extras["format_enforcer"]["example_shape"] == "name;when to see\nvalue;value"


def test_csv_without_a_header_row_and_one_sentence_are_as_requested() -> None:
    task = "Return a CSV with columns date, amount - no header row."
    made = advance(agent_pipeline(DocumentMemory()), SuperPrompt.raw(task), "a5").extras["format_enforcer"]
    assert made["example_shape"] == "value,value"
    assert "with one header row" not in str(made)
    short = advance(agent_pipeline(DocumentMemory()), SuperPrompt.raw("Is it dense? Answer in one sentence."), "a5")
    assert "Length: one sentence." in short.extras["format_enforcer"]["hard_rules"]
