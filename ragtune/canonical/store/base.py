"""The interface of stores (rules D5 to D8 and D13)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Self

from ragtune.canonical.analyzers import Analyzer
from ragtune.canonical.fusion import LEXICAL, VECTOR, fuse_first
from ragtune.canonical.policies import RetrievalPlan
from ragtune.canonical.types import (
    Candidate,
    Chunk,
    Collection,
    Embedding,
    Filters,
    StoreCounts,
    UpsertCounts,
)
from ragtune.core.interfaces import BaseEmbedder


class BaseSearcher(ABC):
    """Chunks that can be searched, in order of score descending, then ``doc_id`` (by code point), then ``chunk_index``.

    ``settings`` are JSON values of a collection: ``embedder`` (how it is made), ``fusion`` (fitted weights) and
    ``sources`` (folders by how their documents' ids begin).
    """

    embedder: BaseEmbedder
    settings: dict[str, Any]

    @abstractmethod
    def vector_candidates(self, embedding: Embedding, k: int, filters: Filters) -> list[Candidate]:
        """The ``k`` chunks nearest by cosine, score = cosine similarity, in [-1, 1]; source ``vector``."""

    @abstractmethod
    def lexical_candidates(self, query: str, k: int, filters: Filters) -> list[Candidate]:
        """The ``k`` best chunks with at least one term of the query; source ``lexical``."""

    def hybrid_candidates(self, query: str, embedding: Embedding, plan: RetrievalPlan) -> list[Candidate]:
        """The ``plan.k`` best of both lists of ``plan.candidate_pool`` candidates, fused as the plan says."""
        lists = {
            VECTOR: self.vector_candidates(embedding, plan.candidate_pool, plan.filters),
            LEXICAL: self.lexical_candidates(query, plan.candidate_pool, plan.filters),
        }
        return fuse_first(plan.k, lists, *plan.fusing)


class BaseStore(BaseSearcher):
    """One collection, whose lexical score is BM25."""

    collection: Collection
    analyzer: Analyzer

    @abstractmethod
    def save_settings(self, settings: dict[str, Any]) -> None:
        """Replace some of the ``settings``, for all who open the collection from now on."""

    @abstractmethod
    def upsert(self, chunks: Sequence[Chunk], embeddings: Embedding) -> UpsertCounts:
        """Make the documents in ``chunks`` consist of exactly these chunks, in one transaction."""

    def load(self, stream: Iterable[tuple[Sequence[Chunk], Embedding]]) -> UpsertCounts:
        """Upsert batches of whole documents in bounded memory. Batches before a failure stay committed."""
        return sum((self.upsert(chunks, embeddings) for chunks, embeddings in stream), UpsertCounts())

    @abstractmethod
    def delete(self, doc_ids: Sequence[str]) -> int:
        """Delete documents with their chunks and return how many of them existed."""

    @abstractmethod
    def chunks(self, doc_id: str) -> list[Chunk]:
        """A document's chunks in order; empty if the collection does not hold it."""

    @abstractmethod
    def contents(self) -> tuple[list[Chunk], Embedding]:
        """All chunks, by ``doc_id`` and ``chunk_index``, and their vectors, shape (chunks, ``embed_dims``)."""

    @abstractmethod
    def doc_ids(self, after: str | None = None, limit: int | None = None) -> list[str]:
        """Ids of documents by code point."""

    @abstractmethod
    def digests(self, doc_ids: Sequence[str]) -> dict[str, str]:
        """Content digests of existing documents, as of :func:`ragtune.canonical.store.rows.document_digest`."""

    @abstractmethod
    def counts(self) -> StoreCounts:
        """Numbers of documents and chunks in the collection."""


class BaseDatabase(ABC):
    """Holds collections; a context manager that closes its connections."""

    @abstractmethod
    def open(
        self, name: str, embedder: BaseEmbedder, *, create: bool = False, analyzer: str | None = None
    ) -> BaseStore:
        """The store of a collection."""

    @abstractmethod
    def collections(self) -> list[Collection]:
        """All collections by name."""

    @abstractmethod
    def settings(self, name: str) -> dict[str, Any]:
        """The settings of a collection; none if it does not exist."""

    @abstractmethod
    def drop(self, name: str) -> bool:
        """Delete a collection and return whether it existed."""

    def check(self) -> None:  # noqa: B027 - memory always answers
        """Check that the database answers."""

    def close(self) -> None:  # noqa: B027 - memory has no connections
        """Release the connections. It is safe to call again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
