# ruff: noqa: RUF001 - letters that look like others are what is tested
from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from ragtune.superprompt.reading.schema import MappingLadder, PromptSchema
from ragtune.superprompt.reading.text import normalize_name

SCHEMA = PromptSchema.load()
LADDER = MappingLadder(SCHEMA)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("  TASK  ", "task"),
        ("**Task**:", "task"),
        ("1. Task", "task"),
        ("Ｔａｓｋ", "task"),
        ("ta\u200bsk", "task"),
        ("deterministic_rules", "deterministic rules"),
        ("Tonalita\u0308t", "tonalität"),
        ("###", ""),
    ],
)
def test_names_are_normalized(written: str, name: str) -> None:
    assert normalize_name(written) == name


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
        ("task and audience of this", None, "unknown"),
        ("", None, "unknown"),
    ],
)
def test_each_rung_of_the_ladder(header: str, key: str | None, step: str) -> None:
    mapped = LADDER.resolve(header, keywords=True)
    assert (mapped.key, mapped.step) == (key, step)


@pytest.mark.parametrize("header", ["Тask", "Τask", "tаsk", "соntext", "audіence", "ᴛᴀsᴋ"])
def test_a_homoglyph_is_another_name_and_never_a_typo(header: str) -> None:
    assert LADDER.resolve(header, keywords=True).step == "unknown"


@pytest.mark.parametrize("header", ["formal", "done", "zone", "mask", "desk", "tex"])
def test_a_word_that_means_something_else_is_no_typo(header: str) -> None:
    assert LADDER.resolve(header, keywords=True).key is None


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


def test_a_language_is_added_by_configuration_alone() -> None:
    bilingual = {**SCHEMA.bilingual, "fr": {"task": ["tâche"]}}
    schema = PromptSchema.model_validate(SCHEMA.model_dump() | {"bilingual": bilingual})
    assert MappingLadder(schema).resolve("Tâche").because == "language fr"
