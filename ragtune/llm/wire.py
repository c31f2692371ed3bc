"""The parts of the OpenAI API's replies that are read; everything else in a reply is ignored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import AliasPath, BaseModel, BeforeValidator, Field

from ragtune.core.plain import well_formed

_MESSAGES = ("error", "errors", "message", "detail", "msg")
_MOST_TOKENS = 10_000_000  # more than any model reads: a greater count is a mistake


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


def _text_of(content: Any) -> Any:
    """The text of a content in parts, as Mistral's reasoning models give it, without the parts that are thoughts."""
    if not isinstance(content, list):
        return well_formed(content) if isinstance(content, str) else content
    parts = [part for part in content if isinstance(part, dict) and part.get("type") in ("text", "output_text")]
    return well_formed("".join(part["text"] for part in parts if isinstance(part.get("text"), str)))


_Text = Annotated[str | None, BeforeValidator(_text_of)]


class Billed(BaseModel):
    """The usage that a reply reports, whether it can be used otherwise or not."""

    usage: Annotated[TokenUsage, BeforeValidator(lambda value: value if isinstance(value, dict) else {})] = TokenUsage()


class Completion(Billed):
    """The first choice of a chat completion; None for texts that the server leaves out."""

    message: dict[str, Any] = Field(validation_alias=AliasPath("choices", 0, "message"))
    text: _Text = Field(None, validation_alias=AliasPath("choices", 0, "message", "content"))
    refusal: _Text = Field(None, validation_alias=AliasPath("choices", 0, "message", "refusal"))
    finish_reason: _Text = Field(None, validation_alias=AliasPath("choices", 0, "finish_reason"))
    model: _Text = None


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
    """Return the usage that a reply reports, if it reports any."""
    return Billed.model_validate(body if isinstance(body, dict) else {}).usage


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
