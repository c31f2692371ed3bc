"""Who is asked: the canonical functions as a library or a server offers them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from ragtune.canonical.chunking import chunk
from ragtune.canonical.compression import compress
from ragtune.canonical.embedding import embed
from ragtune.canonical.fusing import fuse
from ragtune.canonical.indexing import index
from ragtune.canonical.normalization import NormalizedText, normalize
from ragtune.canonical.packaging import package
from ragtune.canonical.policies import ChunkPolicy, CompressPolicy, RetrievalPlan
from ragtune.canonical.reranking import rerank
from ragtune.canonical.retrieval import retrieve
from ragtune.canonical.store.base import BaseDatabase, BaseStore
from ragtune.canonical.store.memory import MemoryDatabase
from ragtune.canonical.types import (
    Candidate,
    CandidateSets,
    Chunk,
    Embedding,
    Excerpts,
    Segment,
    SourceDocument,
    StoreCounts,
)
from ragtune.core.interfaces import BaseEmbedder, BaseReranker
from ragtune.embedders.hashing import HashingEmbedder
from ragtune.rerankers.models.bi_encoder import BiEncoderReranker

EMBEDDER = "hashing"
"""Name of the embedder that a server must offer: :class:`ragtune.embedders.hashing.HashingEmbedder` of 256 dims."""

RERANKER = "hashing"
"""Name of the reranker: :class:`ragtune.rerankers.models.bi_encoder.BiEncoderReranker` of that embedder."""

Content = str | tuple[Segment, ...]


class Target(ABC):
    """The canonical functions (rule D16) and a database. Values are the library's, whoever is asked.

    Attributes:
        name: name of the target, shown to people.
        has_reranker: whether there is the reranker of the golden answers; reranking is optional (rule D9).
    """

    name: str
    has_reranker: bool

    @abstractmethod
    def normalize(self, content: Content) -> NormalizedText:
        """As :func:`ragtune.canonical.normalize`."""

    @abstractmethod
    def chunk(self, document: SourceDocument, policy: ChunkPolicy) -> list[Chunk]:
        """As :func:`ragtune.canonical.chunk`."""

    @abstractmethod
    def embed(self, texts: Sequence[str]) -> Embedding:
        """As :func:`ragtune.canonical.embed`."""

    @abstractmethod
    def create(self, collection: str, analyzer: str) -> None:
        """Make an empty collection of that text analysis."""

    @abstractmethod
    def drop(self, collection: str) -> None:
        """Delete a collection."""

    @abstractmethod
    def index(self, collection: str, chunks: Sequence[Chunk]) -> dict[str, Any]:
        """As :func:`ragtune.canonical.index`."""

    @abstractmethod
    def delete(self, collection: str, doc_ids: Sequence[str]) -> int:
        """Delete documents and return how many of them were there."""

    @abstractmethod
    def chunks(self, collection: str, doc_id: str) -> list[Chunk]:
        """A document's chunks as they are stored."""

    @abstractmethod
    def doc_ids(self, collection: str) -> list[str]:
        """Ids of all documents, ordered by code point."""

    @abstractmethod
    def counts(self, collection: str) -> StoreCounts:
        """Numbers of documents and chunks in the collection."""

    @abstractmethod
    def retrieve(self, collection: str, query: str, plan: RetrievalPlan) -> list[Candidate]:
        """As :func:`ragtune.canonical.retrieve`."""

    @abstractmethod
    def fuse(self, candidate_sets: CandidateSets, method: str, params: Mapping[str, Any]) -> list[Candidate]:
        """As :func:`ragtune.canonical.fuse`."""

    @abstractmethod
    def rerank(self, query: str, candidates: Sequence[Candidate]) -> list[Candidate]:
        """As :func:`ragtune.canonical.rerank` with the reranker of the golden answers."""

    @abstractmethod
    def compress(self, query: str, candidates: Sequence[Candidate], policy: CompressPolicy) -> list[dict[str, Any]]:
        """As :func:`ragtune.canonical.compress`."""

    @abstractmethod
    def package(
        self, query: str, candidates: Sequence[Candidate], excerpts: Excerpts | None, include_content: bool
    ) -> dict[str, Any]:
        """As :func:`ragtune.canonical.package`."""

    @abstractmethod
    def close(self) -> None:
        """Release what the target holds; calling it again does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class LibraryTarget(Target):
    """The library's own functions over a database.

    Args:
        name: name of the target, shown to people.
        database: the database; it is closed with the target.
        embedder: embedder of the collections.
        reranker: reranker of the golden answers; None takes :func:`hashing_reranker`.
    """

    has_reranker = True

    def __init__(
        self,
        name: str,
        database: BaseDatabase,
        embedder: BaseEmbedder | None = None,
        reranker: BaseReranker | None = None,
    ) -> None:
        self.name = name
        self._database = database
        self._embedder = embedder or HashingEmbedder()
        self._reranker = reranker or hashing_reranker()

    def normalize(self, content: Content) -> NormalizedText:
        return normalize(content)

    def chunk(self, document: SourceDocument, policy: ChunkPolicy) -> list[Chunk]:
        return chunk(document, policy)

    def embed(self, texts: Sequence[str]) -> Embedding:
        return embed(texts, self._embedder, cache_dir=None)

    def create(self, collection: str, analyzer: str) -> None:
        self._database.open(collection, self._embedder, create=True, analyzer=analyzer)

    def drop(self, collection: str) -> None:
        self._database.drop(collection)

    def index(self, collection: str, chunks: Sequence[Chunk]) -> dict[str, Any]:
        return index(chunks, self._store(collection))

    def delete(self, collection: str, doc_ids: Sequence[str]) -> int:
        return self._store(collection).delete(doc_ids)

    def chunks(self, collection: str, doc_id: str) -> list[Chunk]:
        return self._store(collection).chunks(doc_id)

    def doc_ids(self, collection: str) -> list[str]:
        return self._store(collection).doc_ids()

    def counts(self, collection: str) -> StoreCounts:
        return self._store(collection).counts()

    def retrieve(self, collection: str, query: str, plan: RetrievalPlan) -> list[Candidate]:
        return retrieve(query, plan, self._store(collection))

    def fuse(self, candidate_sets: CandidateSets, method: str, params: Mapping[str, Any]) -> list[Candidate]:
        return fuse(candidate_sets, method, params)

    def rerank(self, query: str, candidates: Sequence[Candidate]) -> list[Candidate]:
        return rerank(query, candidates, self._reranker)

    def compress(self, query: str, candidates: Sequence[Candidate], policy: CompressPolicy) -> list[dict[str, Any]]:
        return compress(query, candidates, policy)

    def package(
        self, query: str, candidates: Sequence[Candidate], excerpts: Excerpts | None, include_content: bool
    ) -> dict[str, Any]:
        return package(query, candidates, excerpts, include_content=include_content)

    def close(self) -> None:
        self._database.close()

    def _store(self, collection: str) -> BaseStore:
        return self._database.open(collection, self._embedder)


def memory_target() -> LibraryTarget:
    """The reference: exact search in memory."""
    return LibraryTarget("memory", MemoryDatabase())


def hashing_reranker() -> BaseReranker:
    """The reranker of the golden answers: needs no model, and gives the same bits everywhere."""
    return BiEncoderReranker(HashingEmbedder(), cache_dir=None)
