"""The canonical blocks over one database, as every service adapter calls them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, TypeVar

from ragtune.canonical.analyzers import same_model
from ragtune.canonical.chunking import chunk
from ragtune.canonical.compression import compress
from ragtune.canonical.embedding import embed
from ragtune.canonical.fusion import fuse
from ragtune.canonical.packaging import package
from ragtune.canonical.permit import current
from ragtune.canonical.policies import ChunkPolicy, CompressPolicy, RetrievalPlan
from ragtune.canonical.retrieval import index, rerank, retrieve
from ragtune.canonical.store.base import BaseDatabase, BaseStore
from ragtune.canonical.types import (
    Candidate,
    CandidateSets,
    Chunk,
    Collection,
    Embedding,
    Excerpts,
    SourceDocument,
    StoreCounts,
)
from ragtune.core.arguments import check_choice
from ragtune.core.errors import ConfigError, InputError, UnknownCollectionError
from ragtune.core.interfaces import BaseEmbedder, BaseReranker
from ragtune.data.caches.diskcache import AUTO

T = TypeVar("T")


class LimitExceededError(InputError):
    """A request exceeds a limit of the service; the message names the value and the limit."""


_PROBE, _CHUNKS_EACH = 16, 20  # texts whose time predicts that of all; chunks that a request may make of a batch's one
MAX_K = 1000
"""The most candidates that a request may ask for."""


class RagService:
    """A database with embedders (the first is the default) and rerankers that clients choose by name; thread-safe.

    A function that opens the database is called when a collection is first asked for. ``max_batch`` is the most texts,
    chunks, documents or candidates of a request. A write whose texts would take longer than ``timeout_s`` to embed is
    refused after the first of them.
    """

    def __init__(
        self,
        database: BaseDatabase | Callable[[], BaseDatabase],
        embedders: Mapping[str, BaseEmbedder],
        rerankers: Mapping[str, BaseReranker] = MappingProxyType({}),
        max_batch: int = 1000,
        cache_dir: str | Path | None = AUTO,
        timeout_s: float | None = None,
    ) -> None:
        if not embedders:
            raise ConfigError("embedders={}: allowed is at least one")
        self._database = database
        self._opening = threading.Lock()
        self.embedders = dict(embedders)
        self.rerankers = dict(rerankers)
        self._max_batch = max_batch
        self._default = next(iter(self.embedders))
        self._cache_dir = cache_dir
        self._timeout_s = timeout_s
        self._stores: dict[str, BaseStore] = {}

    @property
    def database(self) -> BaseDatabase:
        with self._opening:
            if callable(self._database):
                self._database = self._database()
            return self._database

    def check(self) -> None:
        if not callable(self._database):
            self._database.check()

    def close(self) -> None:
        if not callable(self._database):
            self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def collections(self) -> list[Collection]:
        return self.database.collections()

    def create_collection(
        self, collection: str, embedder: str | None = None, analyzer: str | None = None
    ) -> Collection:
        """Return a collection, created with the embedder and analyzer if it is missing."""
        return self.database.open(collection, self._embedder(embedder)[1], create=True, analyzer=analyzer).collection

    def describe_collection(self, collection: str) -> tuple[Collection, StoreCounts]:
        return self._on(collection, lambda store: (store.collection, store.counts()))

    def drop_collection(self, collection: str) -> bool:
        """Delete a collection and return whether it existed."""
        self._stores.pop(collection, None)
        return self.database.drop(collection)

    def doc_ids(self, collection: str, after: str | None, limit: int) -> list[str]:
        """At most ``limit`` of the document ids that follow ``after``, ordered by code point."""
        self._check_limit("limit", limit, self._max_batch)
        return self._on(collection, lambda store: store.doc_ids(after, limit))

    def chunks(self, collection: str, doc_id: str) -> list[Chunk]:
        return self._on(collection, lambda store: store.chunks(doc_id))

    def delete_documents(self, collection: str, doc_ids: Sequence[str]) -> int:
        """Delete documents and return how many of them existed."""
        self._check_batch("doc_ids", doc_ids)
        return self._on(collection, lambda store: store.delete(doc_ids))

    def embed(self, texts: Sequence[str], embedder: str | None = None) -> tuple[str, str, Embedding]:
        """The embedder's name for clients, its model, and the vectors, shape (len(texts), dims)."""
        self._check_batch("texts", texts)
        name, model = self._embedder(embedder)
        return name, model.name, embed(texts, model, cache_dir=self._cache_dir)

    def index(self, collection: str, chunks: Sequence[Chunk]) -> dict[str, Any]:
        self._check_batch("chunks", chunks)
        return self._on(collection, lambda store: self._index(chunks, store))

    def _index(self, chunks: Sequence[Chunk], store: BaseStore) -> dict[str, Any]:
        self._check_limit("chunks", len(chunks), _CHUNKS_EACH * self._max_batch)
        if self._timeout_s is not None and len(chunks) > _PROBE:
            started = time.monotonic()
            embed(chunks[:_PROBE], store.embedder)
            seconds = (time.monotonic() - started) * len(chunks) / _PROBE
            if seconds > self._timeout_s:
                fitting = int(len(chunks) * self._timeout_s / seconds)
                raise LimitExceededError(
                    f"{len(chunks)} chunks would take about {seconds:.0f} s to embed, allowed are {self._timeout_s:g}: "
                    f"send at most {fitting} at once, raise --timeout, or use ragtune ingest, which has no limit"
                )
        return index(chunks, store)

    def ingest(self, collection: str, documents: Sequence[SourceDocument], policy: ChunkPolicy) -> dict[str, Any]:
        """Normalize, chunk, embed and index documents; those without a visible character are deleted."""
        self._check_batch("documents", documents)
        chunked: dict[str, list[Chunk]] = {}
        for document in documents:
            if document.doc_id in chunked:
                raise InputError(f"documents: {document.doc_id[:100]!r} occurs twice, allowed is once")
            current().check()
            chunked[document.doc_id] = chunk(document, policy)
        empty = [doc_id for doc_id, chunks in chunked.items() if not chunks]

        def work(store: BaseStore) -> dict[str, Any]:
            counts = self._index([one for chunks in chunked.values() for one in chunks], store)
            gone = sum(len(store.chunks(doc_id)) for doc_id in empty)
            if gone:
                store.delete(empty)
            return {**counts, "documents": len(documents), "deleted": counts["deleted"] + gone}

        return self._on(collection, work)

    def retrieve(self, collection: str, query: str, plan: RetrievalPlan) -> list[Candidate]:
        self._check_limit("k", plan.k, MAX_K)
        self._check_limit("candidate_pool", plan.candidate_pool, MAX_K)
        return self._on(collection, lambda store: retrieve(query, plan, store, cache_dir=None))

    def fuse(self, candidate_sets: CandidateSets, method: str, params: Mapping[str, Any]) -> list[Candidate]:
        lists = list(candidate_sets.values() if isinstance(candidate_sets, Mapping) else candidate_sets)
        self._check_batch("candidate_sets", lists)
        for candidates in lists:
            self._check_batch("candidates", candidates)
        return fuse(candidate_sets, method, params)

    def rerank(self, query: str, candidates: Sequence[Candidate], model: str | None) -> list[Candidate]:
        """Call :func:`ragtune.canonical.rerank` with the named reranker; None leaves candidates as they are."""
        self._check_batch("candidates", candidates)
        if model is None:
            return rerank(query, candidates)
        return rerank(query, candidates, self.rerankers[check_choice("model", model, self.rerankers or ("null",))])

    def compress(self, query: str, candidates: Sequence[Candidate], policy: CompressPolicy) -> list[dict[str, Any]]:
        self._check_batch("candidates", candidates)
        return compress(query, candidates, policy)

    def package(
        self, query: str, candidates: Sequence[Candidate], excerpts: Excerpts | None, include_content: bool
    ) -> dict[str, Any]:
        self._check_batch("candidates", candidates)
        return package(query, candidates, excerpts, include_content=include_content)

    def _embedder(self, name: str | None) -> tuple[str, BaseEmbedder]:
        chosen = self._default if name is None else check_choice("embedder", name, self.embedders)
        return chosen, self.embedders[chosen]

    def _on(self, collection: str, work: Callable[[BaseStore], T]) -> T:
        """``work(store)``, repeated if the collection was dropped and created again since it was opened."""
        store = self._stores.get(collection)
        if store is not None:
            try:
                return work(store)
            except UnknownCollectionError:
                self._stores.pop(collection, None)
        kept = next((one.embed_model for one in self.database.collections() if one.name == collection), None)
        fitting = (embedder for embedder in self.embedders.values() if kept and same_model(kept, embedder.name))
        store = self.database.open(collection, next(fitting, self.embedders[self._default]))
        self._stores[collection] = store
        return work(store)

    def _check_batch(self, name: str, items: Sequence[object]) -> None:
        self._check_limit(name, len(items), self._max_batch)

    def _check_limit(self, name: str, value: int, limit: int) -> None:
        if value > limit:
            raise LimitExceededError(f"{name}: {value} asked for, allowed are at most {limit}")
