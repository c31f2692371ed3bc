"""What every store can do (rules D5 to D8 and D13)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Self

from ragtune.canonical.analyzers import Analyzer
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


class BaseStore(ABC):
    """One collection of a database, with the embedder of its vectors and the analyzer of its terms.

    Safe to use from several threads.

    Every read orders by score descending, then ``doc_id`` (by code point), then ``chunk_index`` (rule D12).
    """

    collection: Collection
    embedder: BaseEmbedder
    analyzer: Analyzer

    @abstractmethod
    def upsert(self, chunks: Sequence[Chunk], embeddings: Embedding) -> UpsertCounts:
        """Make the documents in ``chunks`` consist of exactly these chunks, in one transaction.

        All chunks of a document come in one call: chunks of it that are not given are deleted.

        Args:
            chunks: all chunks of some documents, in any order; (doc_id, chunk_index) is unique.
            embeddings: shape (len(chunks), embed_dims), finite.

        Raises:
            InputError: on vectors of another length, non-finite values, or repeated keys; nothing is written.
            StoreError: if the database fails; nothing of this call is written.
        """

    @abstractmethod
    def load(self, stream: Iterable[tuple[Sequence[Chunk], Embedding]]) -> UpsertCounts:
        """Bulk ingestion of batches of whole documents in bounded memory; the same outcome as upserting each batch.

        Batches that were committed before a failure stay; none is half there.
        """

    @abstractmethod
    def delete(self, doc_ids: Sequence[str]) -> int:
        """Delete documents with their chunks and return how many of them were there."""

    @abstractmethod
    def vector_candidates(self, embedding: Embedding, k: int, filters: Filters) -> list[Candidate]:
        """The ``k`` chunks nearest by cosine, score = cosine similarity, in [-1, 1]; source ``vector``."""

    @abstractmethod
    def lexical_candidates(self, query: str, k: int, filters: Filters) -> list[Candidate]:
        """The ``k`` best chunks that hold at least one term of the query; source ``lexical``."""

    @abstractmethod
    def chunks(self, doc_id: str) -> list[Chunk]:
        """A document's chunks in order; empty if the collection does not hold it."""

    @abstractmethod
    def doc_ids(self, after: str | None = None, limit: int | None = None) -> list[str]:
        """Ids of documents by code point: all, or a page of them.

        Args:
            after: only ids that follow this text, which need not be one of them; None for all.
            limit: the most ids of the page, >= 1; None for all.

        Raises:
            InputError: on text whose characters no id could have, or a limit out of range.
        """

    @abstractmethod
    def digests(self, doc_ids: Sequence[str]) -> dict[str, str]:
        """Content digests of the documents that are there, which tell a changed document from an unchanged one."""

    @abstractmethod
    def counts(self) -> StoreCounts:
        """Numbers of documents and chunks in the collection."""


class BaseDatabase(ABC):
    """Holds collections; a context manager that closes its connections."""

    @abstractmethod
    def open(
        self, name: str, embedder: BaseEmbedder, *, create: bool = False, analyzer: str | None = None
    ) -> BaseStore:
        """The store of a collection, made if it is missing and ``create`` is true.

        Args:
            name: name of the collection.
            embedder: embedder of its vectors.
            create: whether to make it if it is missing.
            analyzer: name of the text analysis, as :func:`ragtune.canonical.analyzers.load_analyzer` takes it; None
                takes the collection's own, for a new one :data:`ragtune.canonical.analyzers.DEFAULT`.

        Raises:
            UnknownCollectionError: if there is no collection of that name.
            CollectionMismatchError: if its embed_model or embed_dims are not the embedder's, or its analyzer is not
                the chosen one, or not the one that is installed; the message names both.
            ConfigError: on an unknown analyzer.
        """

    @abstractmethod
    def collections(self) -> list[Collection]:
        """All collections by name."""

    @abstractmethod
    def drop(self, name: str) -> bool:
        """Delete a collection with all it holds and return whether it was there."""

    @abstractmethod
    def check(self) -> None:
        """Check that the database answers.

        Raises:
            StoreError: if it does not; the message says why.
        """

    @abstractmethod
    def close(self) -> None:
        """Release the connections; calling it again does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
