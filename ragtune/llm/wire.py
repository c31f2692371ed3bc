"""The parts of the OpenAI API's replies that are read; everything else in a reply is ignored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, BeforeValidator, Field

from ragtune.core.plain import well_formed

_MESSAGES = ("error", "errors", "message", "detail", "msg")
_MOST_TOKENS = 10_000_000  # more than any model reads: a greater count is a mistake


def well_formed_json(value: Any) -> Any:
    """Return the JSON value with lone surrogates replaced in all texts, since JSON's escapes can spell them."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, list):
        return [well_formed_json(entry) for entry in value]
    if isinstance(value, dict):
        return {well_formed(name): well_formed_json(entry) for name, entry in value.items()}
    return value


def _credible(count: Any) -> int | None:
    """A count of tokens; None for a value that cannot be one, so that a bad figure does not cost the answer."""
    if isinstance(count, str) and count.strip().isdecimal() and len(count) <= len(str(_MOST_TOKENS)):
        count = int(count)
    if isinstance(count, bool) or not isinstance(count, int | float) or not 0 <= count <= _MOST_TOKENS:
        return None
    return int(count) if count == int(count) else None


_Count = Annotated[int | None, BeforeValidator(_credible)]


class TokenUsage(BaseModel):
    """Tokens by the server's count; None where it gives no credible figure."""

    prompt_tokens: _Count = None
    completion_tokens: _Count = None

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(
            prompt_tokens=(self.prompt_tokens or 0) + (other.prompt_tokens or 0),
            completion_tokens=(self.completion_tokens or 0) + (other.completion_tokens or 0),
        )


class Completion(NamedTuple):
    """The first choice of a chat completion; empty texts for fields that the server leaves out."""

    text: str
    refusal: str
    finish_reason: str
    model: str
    usage: TokenUsage


def _text_of(content: Any) -> Any:
    """The text of a content in parts, as Mistral's reasoning models give it, without the parts that are thoughts."""
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
    """Return a body's JSON, after a byte order mark if there is one."""
    return json.loads(text.removeprefix("\ufeff"))


def server_message(body: Any) -> str:
    """Return what an error body says, in the shapes that servers use; empty if it says nothing."""
    if isinstance(body, str):
        return body
    if isinstance(body, list):
        return server_message(body[0]) if body else ""
    found = (server_message(body.get(name)) for name in _MESSAGES) if isinstance(body, Mapping) else ()
    return next(filter(None, found), "")


def read_usage(body: Any) -> TokenUsage:
    """Return the usage that a reply reports, whether it can be used otherwise or not."""
    usage = body.get("usage") if isinstance(body, dict) else None
    return TokenUsage.model_validate(usage) if isinstance(usage, dict) else TokenUsage()


def read_completion(body: Any) -> Completion:
    """Read a reply of ``/chat/completions``."""
    reply = _Completion.model_validate(well_formed_json(body))
    choice = reply.choices[0]
    message = choice.message
    reason = choice.finish_reason or "stop"
    return Completion(message.content or "", message.refusal or "", reason, reply.model or "", read_usage(body))


def read_embeddings(body: Any, count: int) -> tuple[NDArray[np.float32], TokenUsage]:
    """Read a reply of ``/embeddings``: vectors of shape (count, d) in the order of the texts, and the usage."""
    rows = sorted(_Embeddings.model_validate(body).data, key=lambda row: row.index)
    if [row.index for row in rows] != list(range(count)):
        raise ValueError(f"{len(rows)} vectors for {count} texts, or other numbers than 0 to {count - 1}")
    if len({len(row.embedding) for row in rows}) > 1:
        raise ValueError("vectors of different lengths")
    with np.errstate(over="ignore"):  # an overflow becomes infinite, which is refused below
        vectors = np.asarray([row.embedding for row in rows], dtype=np.float32)
    if not np.isfinite(vectors).all():
        raise ValueError("a vector with a value that is not finite")
    return vectors, read_usage(body)
