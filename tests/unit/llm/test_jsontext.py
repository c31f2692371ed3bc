from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, RootModel

from ragtune.llm.jsontext import UnusableJSON, json_values, parse_json


class Grade(BaseModel):
    grade: int


class Names(RootModel[list[str]]):
    pass


@given(st.text())
def test_any_text_gives_a_value_or_says_why_not(text: str) -> None:
    try:
        value: object = parse_json(text, Grade)
    except UnusableJSON as flaw:
        value = flaw
    assert isinstance(value, Grade) or value.kind in ("malformed_json", "wrong_shape")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "{" * 100_000,
        '{"a":' * 50_000,
        "[1," * 300_000,
        "[1,]" * 200_000,
        '["' * 300_000,
        "</think" * 100_000,
        "[1] > " * 100_000,
        "`" * 500_000,
    ],
)
def test_a_megabyte_of_brackets_ends_soon(text: str) -> None:
    with pytest.raises(UnusableJSON):
        parse_json(text, Grade)


@pytest.mark.parametrize("text", ['{"grade": NaN}', '{"grade": Infinity}', '{"grade": 1' + "0" * 5000 + "}"])
def test_what_is_no_json_is_not_taken_for_it(text: str) -> None:
    with pytest.raises(UnusableJSON):
        parse_json(text, Grade)


def test_half_a_surrogate_pair_in_an_escape_becomes_a_character_that_can_be_written() -> None:
    assert parse_json('["\\ud800"]', Names).root == ["?"]


def test_the_first_json_is_told_of_where_none_will_do() -> None:
    with pytest.raises(UnusableJSON, match="grade: Field required"):
        parse_json('{"score": 1} and [2]', Grade)


def test_values_come_as_a_whole_or_last_first_objects_before_rankings_before_lists() -> None:
    assert list(json_values('["</think>", {"a": 1}]')) == [["</think>", {"a": 1}]]
    text = 'see [1]\n```json\n{"a": 2}\n```\nand {"b": [3]}, so [2] > [1]'
    assert list(json_values(text)) == [{"b": [3]}, {"a": 2}, [2, 1], [1], [2], [1]]
    assert list(json_values('{"a": 1}</think>{"b": 2}')) == [{"b": 2}]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, 2, ], }', {"a": [1, 2]}),
        ('so: ["a,]", "b",\n]', ["a,]", "b"]),
        ("[,]", None),
        ("[1,,]", None),
        ('{,"a": 1}', None),
    ],
)
def test_a_comma_before_a_closing_bracket_is_a_blank_and_any_other_is_an_error(text: str, value: object) -> None:
    assert next(json_values(text), None) == value
