"""Answers that rerankers expect of a language model; numbers may have RankGPT's form, ``[2]``."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, model_validator

from ragtune.llm.jsontext import numbers_in

_WRITTEN = re.compile(r"\s*\[?\s*(\d{1,6})\s*\]?\s*")


def _number(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("true and false are no numbers")
    written = _WRITTEN.fullmatch(value) if isinstance(value, str) else None
    return value if written is None else int(written[1])


def _numbers(value: Any) -> Any:
    if isinstance(value, str) and ">" in value:
        return numbers_in(value)
    return [_number(entry) for entry in value] if isinstance(value, list) else value


class Ranking(BaseModel):
    """The documents of a window by number, from 1, best first; a bare list of two numbers or more is accepted."""

    ranking: Annotated[list[int], BeforeValidator(_numbers)]

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, value: Any) -> Any:
        # One number in brackets is more often a citation than an answer.
        return {"ranking": value} if isinstance(value, list) and len(value) > 1 else value


class Best(BaseModel):
    """The number, from 1, of the best document of a set; a bare number is accepted."""

    best: Annotated[int, BeforeValidator(_number)]

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, value: Any) -> Any:
        return {"best": value} if type(value) is int else value


class Grade(BaseModel):
    """A document's grade, 0 (unrelated to the query) to 3 (the exact answer); a bare number is accepted."""

    grade: Annotated[Literal[0, 1, 2, 3], BeforeValidator(_number)]

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, value: Any) -> Any:
        return {"grade": value} if type(value) is int else value
