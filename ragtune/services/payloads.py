"""What goes over the wire, the same in REST and MCP: the library's types, named and put into objects."""

from __future__ import annotations

import math
from typing import Annotated, Any, NotRequired, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from typing_extensions import TypedDict  # pydantic takes no other before Python 3.12

from ragtune.canonical.normalization import check_metadata
from ragtune.canonical.types import Candidate

T = TypeVar("T")

Many = Annotated[tuple[T, ...], Field(fail_fast=True)]
"""A list that is checked up to its first error, as a million errors would take gigabytes."""

_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$"


def _check_candidate(candidate: Candidate) -> Candidate:
    """JSON can write numbers that it cannot read back, and blocks that pass candidates on would."""
    check_metadata(candidate.metadata)
    if not all(map(math.isfinite, candidate.sources.values())):
        raise ValueError("sources: allowed are finite numbers")
    return candidate


GivenCandidate = Annotated[Candidate, AfterValidator(_check_candidate)]
CandidateList = Many[GivenCandidate]
CollectionName = Annotated[str, Field(pattern=_NAME, description="Name of the collection.")]
Model = Annotated[str | None, Field(description="Name of a model that the server was started with; null: its default.")]


class Payload(BaseModel):
    """Base of all requests: unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class FuseParams(Payload):
    """Arguments of reciprocal rank fusion; ``concat`` takes none."""

    k: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    weights: dict[str, Annotated[float, Field(ge=0, le=1e6)]] | None = None


class Excerpt(Payload):
    """A span of a candidate's content."""

    doc_id: str
    chunk_index: int
    start: int
    end: int
    text: str
    score: float = Field(allow_inf_nan=False)
    tokens: int


class PackagedExcerpt(TypedDict):
    """An excerpt of a result."""

    start: int
    end: int
    text: str
    score: float
    tokens: int


class Result(TypedDict):
    """A result; ``content`` and ``excerpts`` if they were asked for."""

    rank: int
    doc_id: str
    chunk_index: int
    score: float
    sources: dict[str, float]
    tags: list[str]
    metadata: dict[str, Any]
    content: NotRequired[str]
    excerpts: NotRequired[list[PackagedExcerpt]]
