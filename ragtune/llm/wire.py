"""The parts of the OpenAI API's replies that are read; whatever else a server sends is ignored."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from ragtune.llm.types import well_formed_json


class Usage(BaseModel):
    """Tokens by the server's count; None where it gives none."""

    prompt_tokens: int | None = Field(default=None, ge=0)
    completion_tokens: int | None = Field(default=None, ge=0)


class Completion(BaseModel):
    """The first choice of a chat completion."""

    text: str
    refusal: str
    finish_reason: str
    model: str
    usage: Usage


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Completion(BaseModel):
    choices: list[_Choice] = Field(min_length=1)
    model: str | None = None
    usage: Usage | None = None


class _Embedding(BaseModel):
    index: int
    embedding: list[float] = Field(min_length=1)


class _Embeddings(BaseModel):
    data: list[_Embedding]
    usage: Usage | None = None


def read_completion(body: Any) -> Completion:
    """A reply of ``/chat/completions``.

    Raises:
        ValueError: if it is none.
    """
    reply = _Completion.model_validate(well_formed_json(body))
    choice = reply.choices[0]
    return Completion(
        text=choice.message.content or "",
        refusal=choice.message.refusal or "",
        finish_reason=choice.finish_reason or "stop",
        model=reply.model or "",
        usage=reply.usage or Usage(),
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
    return vectors, reply.usage or Usage()
