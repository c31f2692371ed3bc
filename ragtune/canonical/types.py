"""The canonical values (rule D16)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

Embedding: TypeAlias = NDArray[np.float32]
"""One vector, shape (embed_dims,), L2-normalised; several are a matrix, shape (n, embed_dims)."""


class Segment(BaseModel):
    """A piece of a document (a page, a turn, a section); chunks that begin in it get its ``metadata``."""

    text: str
    metadata: dict[str, Any] = Field(default_factory=dict)

    model_config = ConfigDict(frozen=True, extra="forbid")


LISTED, OTHER = "\0listed", "\0other"
"""Tags of :func:`kind`. Validation puts them into the places of errors, where they are not keys of the input."""


def kind(value: object) -> str:
    """The tag of a value that may be a list or not. Errors are reported for that kind alone."""
    return LISTED if isinstance(value, list | tuple) else OTHER


Content = Annotated[
    Annotated[str, Tag(OTHER)] | Annotated[tuple[Segment, ...], Tag(LISTED)],
    Discriminator(kind),
]
"""Plain text, or segments in order."""


class SourceDocument(BaseModel):
    """A raw document. Every chunk carries its ``tags`` and ``metadata``, a JSON object in which a segment's keys win.

    ``doc_id`` is unique in its collection and not empty.

    Examples:
        >>> from ragtune.canonical.types import SourceDocument
        >>> SourceDocument(doc_id="d1", content="Green tea is not fermented.", tags=("tea",)).tags
        ('tea',)
    """

    doc_id: str = Field(min_length=1)
    content: Content
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = Field(default_factory=dict)

    model_config = ConfigDict(frozen=True, extra="forbid")


class Chunk(BaseModel):
    """The unit of retrieval.

    Attributes:
        doc_id: id of the document that the chunk is a part of.
        chunk_index: place of the chunk in its document, from 0.
        content: exactly ``normalized_text[start:end]``.
        tags: labels, sorted and without repetitions.
        metadata: a JSON object.
        start, end: positions of the first character and after the last one, in the normalized text.

    Examples:
        >>> from ragtune.canonical.types import Chunk
        >>> Chunk(doc_id="d1", chunk_index=0, content="Green tea.", end=10).end
        10
    """

    doc_id: str
    chunk_index: int = Field(ge=0)
    content: str
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = Field(default_factory=dict)
    start: int = Field(default=0, ge=0)
    end: int = Field(default=0, ge=0)

    model_config = ConfigDict(frozen=True, extra="forbid")


class Candidate(BaseModel):
    """A retrieved chunk.

    Attributes:
        doc_id, chunk_index, content, tags, metadata: as in :class:`Chunk`.
        score: finite score by the last block that ranked it (cosine, lexical rank, fusion, calibrated reranker score).
        sources: score by name of every list that held it (``vector``, ``lexical``), kept through fusion and reranking.

    Examples:
        >>> from ragtune.canonical.types import Candidate
        >>> Candidate(doc_id="d1", chunk_index=2, content="Green tea.", score=0.7).key
        ('d1', 2)
    """

    doc_id: str
    chunk_index: int
    content: str
    score: float = Field(allow_inf_nan=False)
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = Field(default_factory=dict)
    sources: dict[str, float] = Field(default_factory=dict)

    model_config = ConfigDict(frozen=True, extra="forbid")

    @property
    def key(self) -> tuple[str, int]:
        """``(doc_id, chunk_index)``: identity within a collection, and the order of ties."""
        return self.doc_id, self.chunk_index


CandidateSets: TypeAlias = Mapping[str, Sequence[Candidate]] | Sequence[Sequence[Candidate]]
"""Ranked lists to be fused, each best first, by name or in order."""

Excerpts: TypeAlias = Sequence[Mapping[str, Any]]
"""Results of :func:`ragtune.canonical.compression.compress`."""


class Filters(BaseModel):
    """Which chunks may be candidates (rule D7); all conditions must hold, an empty one always does.

    Attributes:
        tags_any: tags of which a chunk must have at least one.
        tags_all: tags that a chunk must all have.
        metadata: values that top-level keys of the metadata must equal; any JSON.

    Examples:
        >>> from ragtune.canonical.types import Filters
        >>> Filters(tags_any=("tea",), metadata={"year": 2024}).is_empty
        False
    """

    tags_any: tuple[str, ...] = ()
    tags_all: tuple[str, ...] = ()
    metadata: dict[str, Any] = Field(default_factory=dict)

    model_config = ConfigDict(frozen=True, extra="forbid")

    @property
    def is_empty(self) -> bool:
        """Whether nothing is filtered."""
        return not (self.tags_any or self.tags_all or self.metadata)


class Collection(BaseModel):
    """A named set of documents with one embedding model and one text analysis (rule D13).

    Attributes:
        name: letters, digits, ``_``, ``-`` and ``.``, at most 63, beginning with a letter or digit.
        embed_model: the embedder's ``name``; fixed for good.
        embed_dims: length of every vector; fixed for good.
        analyzer: identity of the text analysis (:class:`ragtune.canonical.analyzers.Analyzer`); fixed for good.

    Examples:
        >>> from ragtune.canonical.types import Collection
        >>> Collection(name="docs", embed_model="hashing", embed_dims=256, analyzer="english").name
        'docs'
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")
    embed_model: str = Field(min_length=1)
    embed_dims: int = Field(ge=1, le=16000)
    analyzer: str = Field(min_length=1)

    model_config = ConfigDict(frozen=True, extra="forbid")


class StoreCounts(BaseModel):
    """The size of a collection."""

    documents: int
    chunks: int

    model_config = ConfigDict(frozen=True)


class UpsertCounts(BaseModel):
    """The outcome of an upsert, in chunks; ``unchanged`` ones existed in the same form, ``deleted`` are all others."""

    documents: int = 0
    inserted: int = 0
    updated: int = 0
    unchanged: int = 0
    deleted: int = 0

    model_config = ConfigDict(frozen=True)

    def __add__(self, other: UpsertCounts) -> UpsertCounts:
        return UpsertCounts(**{name: getattr(self, name) + getattr(other, name) for name in type(self).model_fields})
