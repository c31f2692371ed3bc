"""One parser for rerankers, reformulators and agents: a draft in a model's thoughts is never its answer."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, RootModel

from ragtune.llm.jsontext import UnusableJSON, json_values, parse_json
from ragtune.rerankers.llm.base import Best, Grade, WindowRanking
from ragtune.superprompt.agents.chooser import ChooserConfig
from ragtune.superprompt.agents.writer import Written

LIMITS = {"max_input_tokens": 500, "max_part_tokens": 100, "max_item_tokens": 50, "max_output_tokens": 99}
COMMON = {"agent_name": "Tester", "version": "v1", "prompt": {"system": "s", "user": "{payload}"}, **LIMITS}
CHOOSER = ChooserConfig.model_validate({**COMMON, "fields": {"colour": {"enum": ["a"]}}})

words = st.text(st.characters(codec="utf-8", exclude_characters='{}[]<>`\\"◁'), max_size=30)
texts = st.text(st.characters(codec="utf-8"), min_size=1).filter(str.strip)
numbers = st.lists(st.integers(1, 20), min_size=2, unique=True)
# What a component asks for: its schema, and answers of the form that its prompt shows.
ASKED: dict[str, tuple[type[BaseModel], st.SearchStrategy[Any]]] = {
    "listwise": (WindowRanking, st.fixed_dictionaries({"ranking": numbers})),
    "listwise, a bare list": (WindowRanking, numbers),
    "setwise": (Best, st.fixed_dictionaries({"best": st.integers(1, 20)})),
    "pointwise": (Grade, st.fixed_dictionaries({"grade": st.integers(0, 3)})),
    "rewriting": (RootModel[list[str]], st.lists(texts, min_size=1)),
    "chooser": (CHOOSER.record_contract(), st.fixed_dictionaries({"colour": texts})),
    "items": (CHOOSER.items_contract(9), st.fixed_dictionaries({"items": st.just([{"id": 1}])})),
    "writer": (Written, st.fixed_dictionaries({"s_ctx_md": texts, "relevance": st.just({"1": 0.5})})),
}
ALL = pytest.mark.parametrize("asked", ASKED)
FEW = settings(max_examples=20)  # of each of 120 combinations

# How models put an answer after a draft; the words of w are prose without brackets.
DRAFTED: dict[str, Callable[[str, str, list[str]], str]] = {
    "thoughts": lambda draft, answer, w: f"<think>{w[0]}{draft}{w[1]}</think>{w[2]}{answer}",
    "no opening tag": lambda draft, answer, w: f"{w[0]}{draft}{w[1]}</think>\n\n{answer}{w[2]}",
    "thoughts twice": lambda draft, answer, w: f"<think>{draft}</think>{draft}<think>{w[0]}</think>{answer}",
    "other tags": lambda draft, answer, w: f"<Thinking>{draft}</Thinking>\n{answer}",
    "a prefix": lambda draft, answer, w: f"<seed:think>{w[0]}{draft}</seed:think>{answer}",
    "Mistral's": lambda draft, answer, w: f"[THINK]{w[0]}{draft}[/THINK]{answer}",
    "channels": lambda draft, answer, w: (
        f"<|channel|>analysis<|message|>{draft}<|end|><|start|>assistant<|channel|>final<|message|>{answer}<|return|>"
    ),
    "two values": lambda draft, answer, w: f"{w[0]} {draft} {w[1]} {answer} {w[2]}",
    "two fences": lambda draft, answer, w: f"```json\n{draft}\n```\n{w[0]}\n```\n{answer}\n```",
    "reasons behind": lambda draft, answer, w: f"{answer}<reasoning>{w[0]}{draft}</reasoning>",
}


def written(value: Any, trailing: bool) -> str:
    text = json.dumps(value)
    return f"{text[:-1]},\n{text[-1]}" if trailing else text


@ALL
@pytest.mark.parametrize("how", DRAFTED)
@FEW
@given(data=st.data(), trailing=st.booleans(), prose=st.lists(words, min_size=3, max_size=3))
def test_the_answer_is_taken_and_no_draft(asked: str, how: str, data: Any, trailing: bool, prose: list[str]) -> None:
    schema, answers = ASKED[asked]
    draft, answer = data.draw(answers), data.draw(answers)
    said = DRAFTED[how](written(draft, False), written(answer, trailing), prose)
    assert parse_json(said, schema) == schema.model_validate(answer)


@ALL
@pytest.mark.parametrize(
    "how", ["<think>{} hmm", "{} hmm</think>", "<think>{}</think> so be it", "a <think> b {}", "x</think>\n<think>{}"]
)
@FEW
@given(data=st.data())
def test_thoughts_without_an_answer_are_no_answer(asked: str, how: str, data: Any) -> None:
    schema, answers = ASKED[asked]
    with pytest.raises(UnusableJSON, match="thoughts aside"):
        parse_json(how.format(json.dumps(data.draw(answers))), schema)


def chain(ranking: list[int]) -> str:
    return " > ".join(f"[{number}]" for number in ranking)


@pytest.mark.parametrize(
    "how",
    [
        "{}",
        "**{}**\n",
        "Ranking: {}.",
        "[1] and [2] are on topic, as [3, 1] say.\n{}\n[5] is not, says [1].",
        '{{"ranking": "{}"}}',
        "<think>[9] > [8]</think>{}",
        "first [9] > [8] > [7], then {}",
    ],
)
@given(numbers.filter(lambda ranking: not set(ranking) < {7, 8, 9}))
def test_a_ranking_as_rankgpt_writes_it_is_understood(how: str, ranking: list[int]) -> None:
    assert parse_json(how.format(chain(ranking)), WindowRanking).ranking == ranking


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("2 > 4 > 1", WindowRanking, {"ranking": [2, 4, 1]}),
        ('{"ranking": ["[2]", "1", 3]}', WindowRanking, {"ranking": [2, 1, 3]}),
        ('{"ranking": [2, 1]}\nI put [2] before [1]: [2] > [1] > [3].', WindowRanking, {"ranking": [2, 1]}),
        ("3", Grade, {"grade": 3}),
        ("\ufeff2\n", Best, {"best": 2}),
        ('{"best": "[2]"}', Best, {"best": 2}),
        ("<think>1 or 2</think>\n2", Best, {"best": 2}),
        ("[2]", Best, {"best": 2}),
        ("<think>[1]?</think> [2]", Best, {"best": 2}),
        ("[3]", Grade, {"grade": 3}),
        ("The best is 2", Best, {"best": 2}),
        ("So the most relevant document is: **[2]**.", Best, {"best": 2}),
    ],
)
def test_other_forms_that_mean_one_thing_are_understood(text: str, schema: type[BaseModel], value: Any) -> None:
    assert parse_json(text, schema).model_dump() == value


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("Document [2] is best.", WindowRanking),
        ("true", Best),
        ("4", Grade),
        ("I compared [1] and [2].", Best),
        ("5 > 3.", WindowRanking),
        ("[2]", WindowRanking),
        ("[2, 1]", Best),
        ("Document [2] is about tea.", Best),
        ("The best is not 2", Best),
        ("The best is 2 or 3", Best),
        ("If the topic is tea, the best is 2", Best),
    ],
)
def test_what_may_mean_another_thing_is_refused(text: str, schema: type[BaseModel]) -> None:
    with pytest.raises(UnusableJSON):
        parse_json(text, schema)


@given(st.text())
def test_any_text_gives_a_value_or_says_why_not(text: str) -> None:
    try:
        value: object = parse_json(text, Grade)
    except UnusableJSON as flaw:
        value = flaw
    assert isinstance(value, Grade) or value.kind in ("malformed_json", "wrong_shape", "wrong_enum")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "[1,]" * 200_000,
        "</think" * 100_000,
        "[1] > " * 100_000,
    ],
)
def test_a_megabyte_of_brackets_ends_soon(text: str) -> None:
    with pytest.raises(UnusableJSON):
        parse_json(text, Grade)


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
