"""What goes over the wire, the same in REST and MCP: the library's types, named and put into objects."""

from __future__ import annotations

import math
from typing import Annotated, Any, NotRequired, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from typing_extensions import TypedDict  # pydantic takes no other before Python 3.12

from ragtune.canonical.normalization import check_metadata
from ragtune.canonical.types import Candidate, Chunk, Collection

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
    """Arguments of a fusion: ``k`` of ``rrf``, ``weights`` of ``rrf`` and ``scores``; ``concat`` takes none."""

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


class Collections(TypedDict):
    """All collections by name."""

    collections: list[Collection]


class CollectionInfo(TypedDict):
    """A collection and what it holds."""

    name: str
    embed_model: str
    embed_dims: int
    analyzer: str
    documents: int
    chunks: int


class Dropped(TypedDict):
    """Whether there was a collection to drop."""

    dropped: bool


class DocumentIds(TypedDict):
    """Ids by code point."""

    doc_ids: list[str]


class Deleted(TypedDict):
    """Number of documents that were there."""

    deleted: int


class Chunks(TypedDict):
    """Chunks in order."""

    chunks: list[Chunk]


class DocumentChunks(Chunks):
    """A document's chunks in order, and the metadata that all of them have."""

    metadata: dict[str, Any]


class Vectors(TypedDict):
    """Vectors in the order of the texts, L2-normalised."""

    embedder: str
    embed_model: str
    embed_dims: int
    embeddings: list[list[float]]


class Indexed(TypedDict):
    """What indexing did, in chunks, and the keys of the chunks that were given."""

    collection: str
    documents: int
    inserted: int
    updated: int
    unchanged: int
    deleted: int
    keys: list[tuple[str, int]]


class Candidates(TypedDict):
    """Candidates, best first."""

    candidates: list[Candidate]


class Excerpts(TypedDict):
    """Excerpts in the order of the candidates."""

    excerpts: list[Excerpt]


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


class Package(TypedDict):
    """Results, best first."""

    query: str
    count: int
    results: list[Result]
