"""The parts of the OpenAI API's replies that are read; whatever else a server sends is ignored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, BeforeValidator, Field

from ragtune.llm.types import well_formed_json

_LONGEST_INT = 300  # digits; Python refuses thousands of them, and floats are infinite by then
_MESSAGES = ("error", "errors", "message", "detail", "msg")
_MOST_TOKENS = 10_000_000  # more than any model reads: a greater count is a mistake, or a lie


def _believable(count: Any) -> int | None:
    """A count of tokens as servers write them; None where it is none, so that a bad figure costs no answer."""
    if isinstance(count, str) and count.strip().isdecimal() and len(count) < len(str(_MOST_TOKENS)) + 1:
        count = int(count)
    if isinstance(count, bool) or not isinstance(count, int | float) or not 0 <= count <= _MOST_TOKENS:
        return None
    return int(count) if count == int(count) else None


_Count = Annotated[int | None, BeforeValidator(_believable)]


class Usage(BaseModel):
    """Tokens by the server's count; None where it gives none that can be believed."""

    prompt_tokens: _Count = None
    completion_tokens: _Count = None

    def __add__(self, other: Usage) -> Usage:
        """The sum of two usages, as far as they are known."""
        return Usage(
            prompt_tokens=(self.prompt_tokens or 0) + (other.prompt_tokens or 0),
            completion_tokens=(self.completion_tokens or 0) + (other.completion_tokens or 0),
        )


class Completion(BaseModel):
    """The first choice of a chat completion."""

    text: str
    refusal: str
    finish_reason: str
    model: str
    usage: Usage


def _text_of(content: Any) -> Any:
    """The text of a content in parts, as Mistral's reasoning models give it; parts of thoughts are none of it."""
    if not isinstance(content, list):
        return content
    parts = [part for part in content if isinstance(part, dict) and part.get("type") in ("text", "output_text")]
    return "".join(part["text"] for part in parts if isinstance(part.get("text"), str))


class _Message(BaseModel):
    content: Annotated[str | None, BeforeValidator(_text_of)] = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Completion(BaseModel):
    choices: list[_Choice] = Field(min_length=1)
    model: str | None = None


class _Embedding(BaseModel):
    index: int
    embedding: list[float] = Field(min_length=1)


class _Embeddings(BaseModel):
    data: list[_Embedding]


def read_json(text: str) -> Any:
    """A body's JSON, after a byte order mark if there is one.

    Raises:
        ValueError: if the body is something else.
        RecursionError: if it is nested too deep.
    """
    return json.loads(
        text.removeprefix("\ufeff"),
        parse_int=lambda digits: int(digits) if len(digits) < _LONGEST_INT else float(digits),
    )


def server_message(body: Any) -> str:
    """What an error body says, in the shapes that servers give it; empty where it says nothing.

    >>> server_message({"error": {"message": "no such model", "code": 404}})
    'no such model'
    """
    if isinstance(body, str):
        return body
    if isinstance(body, list):
        return server_message(body[0]) if body else ""
    told = (server_message(body.get(name)) for name in _MESSAGES) if isinstance(body, Mapping) else ()
    return next(filter(None, told), "")


def read_usage(body: Any) -> Usage:
    """What a reply says that it cost, usable otherwise or not."""
    usage = body.get("usage") if isinstance(body, dict) else None
    return Usage.model_validate(usage) if isinstance(usage, dict) else Usage()


def read_completion(body: Any) -> Completion:
    """A reply of ``/chat/completions``.

    Raises:
        ValueError: if the body is something else.
    """
    reply = _Completion.model_validate(well_formed_json(body))
    choice = reply.choices[0]
    return Completion(
        text=choice.message.content or "",
        refusal=choice.message.refusal or "",
        finish_reason=choice.finish_reason or "stop",
        model=reply.model or "",
        usage=read_usage(body),
    )


def read_embeddings(body: Any, count: int) -> tuple[NDArray[np.float32], Usage]:
    """A reply of ``/embeddings``: vectors of shape (count, d) in the order of the texts, and usage.

    Raises:
        ValueError: if it is none, or not ``count`` finite vectors of one length.
    """
    reply = _Embeddings.model_validate(body)
    if sorted(row.index for row in reply.data) != list(range(count)):
        raise ValueError(f"{len(reply.data)} vectors for {count} texts, or numbered otherwise")
    rows = [row.embedding for row in sorted(reply.data, key=lambda row: row.index)]
    if len({len(row) for row in rows}) > 1:
        raise ValueError("vectors of different lengths")
    with np.errstate(over="ignore"):  # what overflows is refused below
        vectors = np.asarray(rows, dtype=np.float32)
    if not np.isfinite(vectors).all():
        raise ValueError("a vector with a value that is not finite")
    return vectors, read_usage(body)
