"""JSON out of what a model says around it: code fences, prose, thoughts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ragtune.llm.errors import AnswerKind
from ragtune.llm.types import well_formed_json

T = TypeVar("T", bound=BaseModel)

_FENCE = re.compile(r"```[a-zA-Z0-9]*\s*\n(.*?)```", re.DOTALL)
_THOUGHTS = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_OPENING = re.compile(r"[{\[]")
_STARTS = 64  # places where JSON may begin that are tried: a megabyte of brackets must not take for ever
_ENUM_ERRORS = ("enum", "literal_error")
_COUNT_ERRORS = ("too_short", "too_long")


class UnusableJSON(Exception):  # noqa: N818
    """Why a text is not what was asked for.

    Attributes:
        kind: ``malformed_json``, ``wrong_enum``, ``wrong_count`` or ``wrong_shape``.
        problem: what is wrong, in words that a repair can be asked for with.
    """

    def __init__(self, kind: AnswerKind, problem: str) -> None:
        super().__init__(problem)
        self.kind: AnswerKind = kind
        self.problem = problem


def parse_json(text: str, schema: type[T]) -> T:
    """The first JSON value in ``text`` that is valid by ``schema``.

    Tried in this order: the whole text, code fences, objects and arrays anywhere in the prose. Thoughts in a leading
    ``<think>`` block do not count.

    Raises:
        UnusableJSON: if no value is valid; the error describes the first value that is JSON at all.
    """
    first: ValidationError | None = None
    for value in json_values(_THOUGHTS.sub("", text, count=1)):
        try:
            return schema.model_validate(value)
        except ValidationError as error:
            first = first or error
        except RecursionError:
            continue
    if first is None:
        raise UnusableJSON("malformed_json", "there is no JSON value in it")
    raise UnusableJSON(_kind(first), _problem(first))


def json_values(text: str) -> Iterator[Any]:
    """Every JSON value in ``text``, in the order in which :func:`parse_json` tries them."""
    for whole in (text, *_FENCE.findall(text)):
        found = _decode(whole.strip())
        if found is not None:
            yield found[0]
    position = 0
    for _ in range(_STARTS):
        opening = _OPENING.search(text, position)
        if opening is None:
            return
        found = _decode(text[opening.start() :], whole=False)
        if found is None:
            position = opening.start() + 1
        else:
            yield found[0]
            position = opening.start() + found[1]


def _decode(text: str, whole: bool = True) -> tuple[Any, int] | None:
    """(value, characters read)."""
    try:
        value, end = json.JSONDecoder(parse_constant=_refuse).raw_decode(text)
        return (well_formed_json(value), end) if end == len(text) or not whole else None
    except (ValueError, RecursionError):
        return None


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _kind(error: ValidationError) -> AnswerKind:
    types = [entry["type"] for entry in error.errors(include_url=False, include_context=False)]
    if any(kind in _ENUM_ERRORS for kind in types):
        return "wrong_enum"
    return "wrong_count" if any(kind in _COUNT_ERRORS for kind in types) else "wrong_shape"


def _problem(error: ValidationError) -> str:
    entries = error.errors(include_url=False, include_context=False, include_input=False)[:5]
    return "; ".join(f"{'.'.join(map(str, entry['loc'])) or 'the value'}: {entry['msg']}" for entry in entries)
